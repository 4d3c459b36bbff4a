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
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weft-network/weft/pkg/acllogging"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
)

// SetupWithManager registers the controller. Without the kind it is there too, and takes away what is left of policies; Definitions tells when
// the kind comes. One that is there now is read from the start: nothing is said to be unused before its policies are known.
func (r *Cluster) SetupWithManager(mgr ctrl.Manager) (err error) {
	r.controller, err = ctrl.NewControllerManagedBy(mgr).Named(r.Kind.Name).WatchesRawSource(r.Trigger).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.namingNodes), builder.WithPredicates(predicate.Funcs{UpdateFunc: nodeChanged})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: trigger.Retries()}).
		Build(r)
	if err != nil {
		return err
	}
	kind, err := apiutil.GVKForObject(r.Kind.object(), mgr.GetScheme())
	if err != nil {
		return err
	}
	if _, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
		return nil
	} else if err != nil {
		return err
	}
	return r.begin(context.Background(), mgr.GetCache())
}

// begin watches the policies, once they have a kind.
func (r *Cluster) begin(ctx context.Context, from cache.Cache) error {
	if begun, err := r.Known.begin(ctx, from, r.Kind); !begun {
		return err
	}
	return r.controller.Watch(source.Kind(from, r.Kind.object(), &handler.EnqueueRequestForObject{},
		predicate.Or[client.Object](predicate.Funcs{UpdateFunc: clusterPolicyChanged}, acllogging.Changed())))
}

// end looks at all policies once more: there are none without their kind.
func (r *Cluster) end(ctx context.Context, from cache.Cache) error {
	left, err := r.list(ctx)
	if err != nil && !errors.Is(err, errNotInSync) { // a cache that is not yet comes no more
		return err
	}
	if err := r.Known.end(ctx, from, r.Kind); err != nil {
		return err
	}
	for _, policy := range left {
		r.Trigger.Enqueue(client.ObjectKeyFromObject(policy))
	}
	return nil
}

// clusterPolicyChanged lets changes of the spec and the status pass, our own too: a condition that was compared with one from before the last write is
// told when that write comes.
func clusterPolicyChanged(e event.UpdateEvent) bool {
	before, after := conditionsOf(e.ObjectOld), conditionsOf(e.ObjectNew)
	return trigger.SpecChanged().Update(e) || before == nil || after == nil || !equality.Semantic.DeepEqual(*before, *after)
}

// nodeChanged lets changes of the node's labels and addresses pass.
func nodeChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	return !ok || !ok2 || !maps.Equal(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}

// namingNodes asks for the policies that are about nodes.
func (r *Cluster) namingNodes(ctx context.Context, _ client.Object) (all []reconcile.Request) {
	policies, err := r.list(ctx)
	if err != nil {
		return nil // one whose kind came just now is looked at when the cache is in sync
	}
	for _, policy := range policies {
		if namesNodes(policy) {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policy)})
		}
	}
	return all
}

func namesNodes(policy client.Object) (named bool) {
	_, _ = topology.ParseClusterPolicy(policy, func(topology.PodSelector, topology.NamedPort) []uint16 { return nil },
		func(labels.Selector) []netip.Addr {
			named = true
			return nil
		})
	return named
}
