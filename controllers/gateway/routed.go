package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// addRouted adds the pods of the node that have routers of their own, if routers are watched.
func (r *Reconciler) addRouted(ctx context.Context, nn *networkv1alpha1.NodeNetwork, to *facts.Gateway) error {
	var routes networkv1alpha1.ExternalRouteList
	if err := r.Client.List(ctx, &routes); err != nil {
		return err
	}
	to.Routed = len(routes.Items) > 0
	if !to.HasRouter() || !slices.ContainsFunc(routes.Items, watches) {
		return nil
	}
	if err := r.Restore(ctx); err != nil { // the pods' addresses
		return err
	}
	var pods corev1.PodList
	var egress networkv1alpha1.EgressIPList
	var services corev1.ServiceList
	if err := errors.Join(r.Client.List(ctx, &pods, client.MatchingFields{kind.PodsByNode: to.Node.Name}),
		r.Client.List(ctx, &services, client.MatchingFields{kind.ServicesLeaving: "true"}),
		r.Client.List(ctx, &egress)); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		_, got, ok := r.Addresses.Get(alloc.PodOwner(pod.Namespace, pod.Name, networkv1alpha1.InterfaceUID(pod)))
		if !ok || !facts.WantsPort(pod) {
			continue
		}
		in, err := kind.NamespaceLabels(ctx, r.Client, pod.Namespace)
		if err != nil {
			return err
		}
		hops := facts.Reachable(facts.NextHopsOf(routes.Items, in, pod.Labels), nn)
		if len(hops) > 0 && facts.SelectEgress(egress.Items, services.Items, pod.Namespace, in, pod.Labels) == "" {
			to.RoutedPods = append(to.RoutedPods, facts.RoutedPod{Addresses: ipam.Addresses(got.Addresses), NextHops: hops})
		}
	}
	return nil
}

// watches reports whether a router of an ExternalRoute is watched.
func watches(e networkv1alpha1.ExternalRoute) bool {
	return slices.ContainsFunc(e.Status.NextHops, func(hop networkv1alpha1.ExternalNextHop) bool { return hop.BFD })
}

// routedWatches are the watches of what addRouted reads. The reconciler of pods enqueues the node of a pod with a watched router.
func (r *Reconciler) routedWatches() []kind.Watch {
	return []kind.Watch{
		kind.Map(&networkv1alpha1.ExternalRoute{}, r.everyNode, trigger.Changed(func(before, after *networkv1alpha1.ExternalRoute) bool {
			return kind.ExternalRouteChanged(before, after) && (watches(*before) || watches(*after))
		})),
		kind.Map(&corev1.Pod{}, r.nodeOf, predicate.Funcs{UpdateFunc: trigger.Update(selectionChanged),
			CreateFunc: func(event.CreateEvent) bool { return false }}),
		kind.Map(&networkv1alpha1.EgressIP{}, r.ifWatched(r.everyNode), trigger.SpecChanged()),
		kind.Map(&corev1.Service{}, r.ifWatched(r.everyNode), kind.EgressSourceChanged()),
		kind.Map(&corev1.Namespace{}, r.ifWatched(r.everyNode), trigger.Changed(trigger.LabelsChanged)).MetadataOnly(),
	}
}

// selectionChanged passes the updates that change which routers a pod has.
func selectionChanged(before, after *corev1.Pod) bool {
	return facts.WantsPort(before) != facts.WantsPort(after) ||
		!maps.Equal(before.Labels, after.Labels)
}

// ifWatched returns the requests of a function while any router is watched.
func (r *Reconciler) ifWatched(requests handler.MapFunc) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var routes networkv1alpha1.ExternalRouteList
		// the cache returns no errors once it is in sync
		if err := r.Client.List(ctx, &routes); err != nil || !slices.ContainsFunc(routes.Items, watches) {
			return nil
		}
		return requests(ctx, o)
	}
}

// nodeOf returns a request for the node of a pod, while any router is watched.
func (r *Reconciler) nodeOf(ctx context.Context, o client.Object) []reconcile.Request {
	return r.ifWatched(func(context.Context, client.Object) []reconcile.Request {
		if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: pod.Spec.NodeName}}}
		}
		return nil
	})(ctx, o)
}
