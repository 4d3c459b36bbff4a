package policy

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weft-network/weft/controllers/acllogging"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Cluster reconciles ClusterNetworkPolicies, with the groups and sets that NetworkPolicies use too. A cluster may lack their CRD: then there are
// none, and what was made of former ones goes.
type Cluster struct {
	*Reconciler
	Trigger *trigger.Trigger
	// Known says that the API server has the CRD.
	Known bool
}

// Reconcile implements reconcile.Reconciler.
func (r *Cluster) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	key := topology.ClusterNetworkPolicyKey(req.Name)
	var policy policyv1alpha2.ClusterNetworkPolicy
	if err := r.Client.Get(ctx, req.NamespacedName, &policy); apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		r.Selectors.Read(key, nil)
		return ctrl.Result{}, r.settle(ctx, unit.Unit{Key: key}, nil)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	facts, invalid, err := r.useCluster(ctx, &policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	selectors := facts.Selectors()
	if !r.Selectors.Made(selectors) {
		return ctrl.Result{}, nil // their coming asks for this policy; until then, what it was before holds
	}
	if facts.Logging, err = acllogging.Of(ctx, r.Client, r.Events, &policy); err != nil {
		return ctrl.Result{}, err
	}
	applied := r.settle(ctx, topology.ClusterNetworkPolicyUnit(facts), selectors)
	return ctrl.Result{}, errors.Join(applied, r.tell(ctx, &policy, invalid, applied))
}

// useCluster reads a policy, and says what it uses.
func (r *Cluster) useCluster(ctx context.Context, policy *policyv1alpha2.ClusterNetworkPolicy) (facts topology.ClusterNetworkPolicy, invalid, err error) {
	key := topology.ClusterNetworkPolicyKey(policy.Name)
	facts, held, invalid, err := r.parseCluster(ctx, policy)
	r.Selectors.Read(key, held)
	if len(held) > 0 && err == nil { // a pod that came between the two was asked by nobody
		facts, held, invalid, err = r.parseCluster(ctx, policy)
		r.Selectors.Read(key, held)
	}
	if err != nil {
		return facts, invalid, err
	}
	return facts, invalid, r.Selectors.Use(ctx, key, facts.Selectors(), world{r.Client}.pods)
}

func (r *Cluster) parseCluster(ctx context.Context, policy *policyv1alpha2.ClusterNetworkPolicy) (facts topology.ClusterNetworkPolicy, held []*heldPort, invalid, err error) {
	numbers := func(pods topology.PodSelector, port topology.NamedPort) []uint16 {
		read, failed := world{r.Client}.read(ctx, pods, port)
		err = errors.Join(err, failed)
		held = append(held, read)
		return slices.Sorted(maps.Keys(read.counts))
	}
	nodes := func(selector labels.Selector) []netip.Addr {
		var nodes corev1.NodeList
		err = errors.Join(err, r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy))
		return topology.AddressesOfNodes(selector, nodes.Items)
	}
	facts, invalid = topology.ParseClusterNetworkPolicy(policy, numbers, nodes)
	return facts, held, invalid, err
}

// loadCluster tells the selectors of all policies that there are.
func (r *Cluster) loadCluster(ctx context.Context) error {
	if r == nil || !r.Known {
		return nil
	}
	var policies policyv1alpha2.ClusterNetworkPolicyList
	if err := r.Client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range policies.Items {
		if _, _, err := r.useCluster(ctx, &policies.Items[i]); err != nil {
			return err
		}
	}
	return nil
}
