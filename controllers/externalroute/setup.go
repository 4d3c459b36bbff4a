package externalroute

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// Kinds returns the kind of ExternalRoutes.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Database: env.Database, Events: env.Events, Triggers: env.Triggers, Now: time.Now,
		Reachable: env.Observed.AgentReachable}
	lost := func(request reconcile.Request) {
		env.Triggers.EnqueueAfter(topology.KindExternalRoute, request.NamespacedName, env.Settings.CountDelay)
	}
	return []*kind.Kind{{
		Name: topology.KindExternalRoute, Reconciler: r,
		Owner: func() client.Object { return &networkv1alpha1.ExternalRoute{} },
		Watches: append([]kind.Watch{
			// A status that was computed beside an older one of the cache is computed again when the cache has it.
			kind.Of(&networkv1alpha1.ExternalRoute{}),
			kind.Map(&corev1.Pod{}, r.withPods, trigger.Changed(routerChanged)),
			kind.Map(&networkv1alpha1.NodeNetwork{}, r.every, trigger.Changed(segmentChanged)),
			kind.Map(&corev1.Namespace{}, r.withPods, trigger.Changed(trigger.LabelsChanged)).MetadataOnly(),
		}, slices.Concat(kind.MachineWatches(r.every), kind.SelectionWatches(env.Client, r.selectors, lost))...),
	}}
}

// selectsOf returns the selection of pods by an ExternalRoute.
func selectsOf(e *networkv1alpha1.ExternalRoute) kind.Selects {
	return func(namespace, pod labels.Set) (bool, error) { return facts.RouteSelects(e, namespace, pod) }
}

// selectors lists the selectors of all ExternalRoutes.
func (r *Reconciler) selectors(ctx context.Context, _ client.Object) (all []kind.Selector) {
	var list networkv1alpha1.ExternalRouteList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	for i := range list.Items {
		e := &list.Items[i]
		all = append(all, kind.Selector{Request: reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e)}, Selects: selectsOf(e),
			None: kind.SaysNone(meta.FindStatusCondition(e.Status.Conditions, networkv1alpha1.ConditionReady))})
	}
	return all
}

// every returns a request for each ExternalRoute.
func (r *Reconciler) every(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: All}}
}

// segmentChanged passes the changes that decide which routers a node reaches.
func segmentChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return !equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway) ||
		before.Status.EncapIP != after.Status.EncapIP ||
		!equality.Semantic.DeepEqual(before.Status.FurtherEncapIPs, after.Status.FurtherEncapIPs)
}

// withPods returns a request for each ExternalRoute whose routers may be pods with the labels of this one, or pods of this namespace.
func (r *Reconciler) withPods(ctx context.Context, o client.Object) []reconcile.Request {
	pod, isPod := o.(*corev1.Pod)
	return kind.RequestsIf(ctx, r.Client, &networkv1alpha1.ExternalRouteList{}, func(e *networkv1alpha1.ExternalRoute) bool {
		return len(e.Spec.NextHops.Pods) > 0 && (!isPod || facts.MayBeRouter(e, pod))
	})
}

// routerChanged passes the changes that decide whether and at which addresses a pod is a router.
func routerChanged(before, after *corev1.Pod) bool {
	return before.Status.Phase != after.Status.Phase ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || !maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Status.PodIPs, after.Status.PodIPs) ||
		before.Annotations[facts.NetworkStatusAnnotation] != after.Annotations[facts.NetworkStatusAnnotation]
}
