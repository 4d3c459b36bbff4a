package policy

import (
	"context"
	"errors"
	"maps"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/acllog/annotation"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/trigger"
)

func (r *Cluster) kind() *kind.Kind {
	return &kind.Kind{
		Name: r.Kind.Name, Workers: workers, Reconciler: r, Owner: r.Kind.object, Optional: true, Built: r.built,
		Watches: []kind.Watch{
			kind.Map(&corev1.Node{}, r.namingNodes, predicate.Funcs{UpdateFunc: nodeChanged}),
			{Object: r.Kind.object(), Handler: &handler.EnqueueRequestForObject{}, Predicates: r.predicates(), Later: true},
		},
	}
}

func (r *Cluster) predicates() []predicate.Predicate {
	return []predicate.Predicate{predicate.Or[client.Object](predicate.Funcs{UpdateFunc: clusterPolicyChanged}, annotation.Changed())}
}

// built starts to watch the policies if the API server serves their kind. Otherwise the controller removes the rows
// of former policies, and Definitions starts the watch when the kind appears. Existing policies are read before any
// selector counts as unused.
func (r *Cluster) built(mgr ctrl.Manager, c controller.Controller) error {
	r.controller = c
	// The kind may have disappeared and returned since a former leadership of this process read it.
	if err := mgr.GetCache().RemoveInformer(context.Background(), r.Kind.object()); err != nil {
		return err
	}
	gvk, err := apiutil.GVKForObject(r.Kind.object(), mgr.GetScheme())
	if err != nil {
		return err
	}
	if _, err := mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
		return nil
	} else if err != nil {
		return err
	}
	return r.begin(context.Background(), mgr.GetCache())
}

// begin watches the policies, once the API server serves their kind.
func (r *Cluster) begin(ctx context.Context, from cache.Cache) error {
	if begun, err := r.Served.Begin(ctx, from, r.Kind.Name, r.Kind.object()); !begun {
		return err
	}
	return r.controller.Watch(source.Kind(from, r.Kind.object(), &handler.EnqueueRequestForObject{}, r.predicates()...))
}

// end enqueues all policies once more, because without their kind no policy exists.
func (r *Cluster) end(ctx context.Context, from cache.Cache) error {
	left, err := r.list(ctx)
	if err != nil && !errors.Is(err, kind.ErrNotInSync) { // a cache that is not in sync yet never will be
		return err
	}
	if err := r.Served.End(ctx, from, r.Kind.Name, r.Kind.object()); err != nil {
		return err
	}
	for _, policy := range left {
		r.Triggers.Enqueue(r.Kind.Name, client.ObjectKeyFromObject(policy))
	}
	return nil
}

// clusterPolicyChanged passes changes of the spec and the status, including our own writes. A condition that equals
// an outdated status is not written, so it is compared again when our last write arrives.
func clusterPolicyChanged(e event.UpdateEvent) bool {
	before, after := conditionsOf(e.ObjectOld), conditionsOf(e.ObjectNew)
	return trigger.SpecChanged().Update(e) || before == nil || after == nil || !equality.Semantic.DeepEqual(*before, *after)
}

// nodeChanged passes changes of the node's labels and addresses.
func nodeChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	return !ok || !ok2 || !maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}

// namingNodes returns a request for each policy that names nodes.
func (r *Cluster) namingNodes(ctx context.Context, _ client.Object) (all []reconcile.Request) {
	policies, err := r.list(ctx)
	if err != nil {
		return nil // if the kind has just appeared, its policies are reconciled when the cache is in sync
	}
	for _, policy := range policies {
		if namesNodes(policy) {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policy)})
		}
	}
	return all
}

func namesNodes(policy client.Object) (named bool) {
	_, _ = facts.ParseClusterPolicy(policy, func(facts.PodSelector, facts.NamedPort) []uint16 { return nil },
		func(labels.Selector) []netip.Addr {
			named = true
			return nil
		})
	return named
}
