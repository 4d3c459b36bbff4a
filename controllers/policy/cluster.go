package policy

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/weft-network/weft/pkg/acllogging"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Cluster reconciles the policies of one kind of network-policy-api, with the groups and sets that NetworkPolicies use too. A cluster may lack
// the kind: then there are none, and what was made of former ones goes.
type Cluster struct {
	*Reconciler
	Kind    ClusterKind
	Known   *Known
	Trigger *trigger.Trigger

	controller controller.Controller
}

// Reconcile implements reconcile.Reconciler.
func (r *Cluster) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	key, policy := unit.NewKey(r.Kind.Name, req.Name), r.Kind.object()
	known, err := r.Known.Read(r.Kind.Name, func() error { return r.Client.Get(ctx, req.NamespacedName, policy) })
	if !known || apierrors.IsNotFound(err) {
		r.Selectors.Read(key, nil)
		return ctrl.Result{}, r.settle(ctx, unit.Unit{Key: key}, nil)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	facts, invalid, err := r.use(ctx, policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	selectors := facts.Selectors()
	if !r.Selectors.Made(selectors) {
		return ctrl.Result{}, nil // their coming asks for this policy; until then, what it was before holds
	}
	if facts.Logging, err = acllogging.Of(ctx, r.Client, r.Events, policy); err != nil {
		return ctrl.Result{}, err
	}
	applied := r.settle(ctx, topology.ClusterPolicyUnit(facts), selectors)
	return ctrl.Result{}, errors.Join(applied, r.tell(ctx, policy, facts, invalid, applied))
}

func (r *Cluster) use(ctx context.Context, policy client.Object) (facts topology.ClusterPolicy, invalid, err error) {
	return readPolicy(ctx, r.Reconciler, unit.NewKey(r.Kind.Name, policy.GetName()), func(numbers topology.Numbers, nodes topology.NodesOf) (topology.ClusterPolicy, error) {
		return topology.ParseClusterPolicy(policy, numbers, nodes)
	})
}

// load tells the selectors of all policies that there are.
func (r *Cluster) load(ctx context.Context) error {
	if !r.Known.Has(r.Kind.Name) {
		return nil
	}
	return r.each(ctx, func(policy client.Object) error {
		_, _, err := r.use(ctx, policy)
		return err
	})
}

// ClusterPolicies lists the policies of the whole cluster that there are.
func (r *Reconciler) ClusterPolicies(ctx context.Context) (all []metav1.Object, err error) {
	for _, cluster := range r.Clusters {
		policies, err := cluster.list(ctx)
		if err != nil {
			return nil, err
		}
		for _, policy := range policies {
			all = append(all, policy)
		}
	}
	return all, nil
}

func (r *Cluster) list(ctx context.Context) (all []client.Object, err error) {
	_, err = r.Known.Read(r.Kind.Name, func() error {
		return r.each(ctx, func(policy client.Object) error {
			all = append(all, policy)
			return nil
		})
	})
	return all, err
}

// each visits the policies that are in the cache. They are only looked at.
func (r *Cluster) each(ctx context.Context, visit func(client.Object) error) error {
	list := r.Kind.list()
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	return meta.EachListItem(list, func(object runtime.Object) error { return visit(object.(client.Object)) })
}
