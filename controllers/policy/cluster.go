package policy

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/acllog/annotation"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Cluster reconciles the policies of one kind of network-policy-api, with the groups and sets that NetworkPolicies
// use too. If the API server does not serve the kind, there are no policies, and the rows of former policies are
// removed.
type Cluster struct {
	*Reconciler
	*Optional
	published sync.Map // by name: the conditions that a policy had when Reported published it
}

// Reconcile implements reconcile.Reconciler.
func (r *Cluster) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Selectors.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	key, policy := unit.NewKey(r.Kind.Name, req.Name), r.Kind.object()
	found, err := r.get(ctx, req.NamespacedName, policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !found {
		r.Selectors.Read(key, nil)
		err := r.settle(ctx, unit.Unit{Key: key}, nil)
		r.keepNames(key, nil, err)
		r.published.Delete(req.Name)
		r.Reported.Publish(struct{}{})
		return ctrl.Result{}, err
	}
	r.publish(policy)
	read, invalid, err := r.use(ctx, policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	selectors := topology.ClusterPolicySelectors(read)
	if _, ready := r.Selectors.Unmade(selectors); !ready {
		// the groups and sets that wait for a pod enqueue this policy when they are created; until then the previous rules stay
		return ctrl.Result{}, nil
	}
	names := topology.ClusterPolicyNames(read)
	if !r.named(names) {
		return ctrl.Result{}, nil // the sets enqueue this policy when they are created; until then the previous rules stay
	}
	if read.Logging, err = annotation.Of(ctx, r.Client, r.Events, policy); err != nil {
		return ctrl.Result{}, err
	}
	applied := r.settle(ctx, topology.ClusterPolicyUnit(read), selectors)
	r.keepNames(key, names, applied)
	return ctrl.Result{}, errors.Join(applied, r.report(ctx, policy, read, invalid, applied))
}

// publish publishes a policy whose conditions in the cache differ from the conditions at its previous reconciliation. The first one
// counts as different, because the ClusterNetwork's first report may be older than the cache.
func (r *Cluster) publish(policy client.Object) {
	now := *conditionsOf(policy)
	if before, known := r.published.Swap(policy.GetName(), now); !known || !equality.Semantic.DeepEqual(before, now) {
		r.Reported.Publish(struct{}{})
	}
}

func (r *Cluster) use(ctx context.Context, policy client.Object) (read facts.ClusterPolicy, invalid, err error) {
	key := unit.NewKey(r.Kind.Name, policy.GetName())
	read, invalid, err = readPolicy(ctx, r.Reconciler, key, topology.ClusterPolicySelectors,
		func(numbers facts.Numbers, nodes facts.NodesOf) (facts.ClusterPolicy, error) {
			return facts.ParseClusterPolicy(policy, numbers, nodes)
		})
	if err == nil {
		for _, set := range r.Names.Add(key, topology.ClusterPolicyNames(read)) {
			r.Triggers.EnqueueUnit(set) // another user may have ended, and the set with it
		}
	}
	return read, invalid, err
}

// load reads all policies of the kind into the selectors.
func (r *Cluster) load(ctx context.Context) error {
	return r.Optional.load(ctx, func(policy client.Object) error {
		_, _, err := r.use(ctx, policy)
		return err
	})
}

// ClusterPolicies lists the cluster-wide policies of the kinds that the API server serves.
func ClusterPolicies(ctx context.Context, reader client.Reader, served *kind.Served) (all []metav1.Object, err error) {
	for _, of := range ClusterKinds() {
		policies, err := of.listFrom(ctx, reader, served)
		if err != nil {
			return nil, err
		}
		for _, policy := range policies {
			all = append(all, policy)
		}
	}
	return all, nil
}
