package pod

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
)

const (
	// workers is how many pods are reconciled at once: each waits for its transaction, and those that wait share the next.
	workers = 64
	// byNode indexes pods by their node.
	byNode = "spec.nodeName"
)

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, byNode, func(o client.Object) []string {
		if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("pod").
		Watches(&corev1.Pod{}, &newcomersFirst{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: portChanged})).
		Watches(&networkv1alpha1.NodeNetwork{}, handler.EnqueueRequestsFromMapFunc(r.podsOf), builder.WithPredicates(predicate.Funcs{
			UpdateFunc: nodeChanged, DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		Watches(&networkv1alpha1.ClusterNetwork{}, handler.EnqueueRequestsFromMapFunc(r.podsIn), builder.WithPredicates(onlyUpdates(policyChanged))).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.podsIn), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return r.holders.misses(e.Object.GetName()) },
			UpdateFunc: namespaceChanged,
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		Watches(&networkv1alpha1.EgressIP{}, handler.Funcs{
			CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				r.askSelected(ctx, q, e.Object)
			},
			DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				r.askSelected(ctx, q, e.Object)
			},
			UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				if selectorsChanged(e) {
					r.askSelected(ctx, q, e.ObjectOld, e.ObjectNew)
				}
			},
		}).
		WatchesRawSource(r.Trigger).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             trigger.Retries(),
		}).
		Complete(trigger.Looked(r, r.Looked))
}

// newcomersFirst asks for each pod that something happens to. Of those that are there at a start, the ones without an address wait for this
// process and come first; the others work.
type newcomersFirst struct {
	handler.EnqueueRequestForObject
}

// Create implements handler.EventHandler.
func (h *newcomersFirst) Create(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if pod, ok := e.Object.(*corev1.Pod); ok && len(pod.Status.PodIPs) == 0 {
		e.IsInInitialList = false
	}
	h.EnqueueRequestForObject.Create(ctx, e, q)
}

// podsOf asks for the pods of a node whose network came or changed.
func (r *Reconciler) podsOf(ctx context.Context, o client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{byNode: o.GetName()})
}

// podsIn asks for the pods of a namespace, or for all when the object is none, since their records are asked for now.
func (r *Reconciler) podsIn(ctx context.Context, o client.Object) []reconcile.Request {
	if _, ok := o.(*networkv1alpha1.ClusterNetwork); ok {
		return r.list(ctx)
	}
	return r.list(ctx, client.InNamespace(o.GetName()))
}

func (r *Reconciler) list(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, append(options, client.UnsafeDisableDeepCopy)...); err != nil { // only names are read
		return nil // the cache answers; it has no errors to give once it is in sync
	}
	requests := make([]reconcile.Request, 0, len(pods.Items))
	for i := range pods.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])})
	}
	return requests
}

// portChanged lets the updates pass that change whether or how a pod has a port.
func portChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Pod)
	after, ok2 := e.ObjectNew.(*corev1.Pod)
	return !ok || !ok2 || before.UID != after.UID || topology.WantsPort(before) != topology.WantsPort(after) || !maps.Equal(before.Labels, after.Labels) ||
		before.Annotations[networkv1alpha1.PodNetworksAnnotation] != after.Annotations[networkv1alpha1.PodNetworksAnnotation] ||
		asksOtherwise(before, after)
}

// onlyUpdates passes updates that the predicate accepts: at a start every pod is reconciled anyway.
func onlyUpdates(changed func(event.UpdateEvent) bool) predicate.Funcs {
	return predicate.Funcs{
		UpdateFunc: changed,
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

func policyChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.ClusterNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.ClusterNetwork)
	return !ok || !ok2 || before.Spec.PodRecord != after.Spec.PodRecord
}

// namespaceChanged lets the updates pass that change what is asked for, or who selects the pods.
func namespaceChanged(e event.UpdateEvent) bool {
	const request = networkv1alpha1.PodRecordAnnotation
	return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) || e.ObjectOld.GetAnnotations()[request] != e.ObjectNew.GetAnnotations()[request]
}

// nodeChanged lets the updates pass that every port of a node, or its record, depends on.
func nodeChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.NodeNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.NodeNetwork)
	return !ok || !ok2 || before.Status.Chassis != after.Status.Chassis || before.Spec.MTU != after.Spec.MTU ||
		!equality.Semantic.DeepEqual(before.Spec.DNS, after.Spec.DNS) || !equality.Semantic.DeepEqual(before.Spec.PodSubnets, after.Spec.PodSubnets)
}
