package service

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
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
	// ByService indexes EndpointSlices by the name of their service.
	ByService = "metadata.labels." + discoveryv1.LabelServiceName
	// ByAddress indexes Services by the addresses that they are balanced on.
	ByAddress = "balanced.addresses"
	// ByNodes indexes, as "true", the Services that have other backends on one node than on another.
	ByNodes = "balanced.pernode"
	// workers is how many services are reconciled at once: each waits for its transaction, and those that wait share the next.
	workers = 16
)

// IndexByService is the function of the index ByService.
func IndexByService(o client.Object) []string {
	if name := o.GetLabels()[discoveryv1.LabelServiceName]; name != "" {
		return []string{name}
	}
	return nil
}

// IndexByAddress is the function of the index ByAddress.
func IndexByAddress(o client.Object) []string {
	service, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	var texts []string
	for _, address := range topology.ServiceAddresses(service) {
		texts = append(texts, address.String())
	}
	return texts
}

// IndexByNodes is the function of the index ByNodes.
func IndexByNodes(o client.Object) []string {
	if service, ok := o.(*corev1.Service); ok && topology.PerNode(service) {
		return []string{"true"}
	}
	return nil
}

// SetupWithManager registers the controller. It starts when services and slices are both in sync, so that no balancer is made, or cut
// down, from a part of its endpoints.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &discoveryv1.EndpointSlice{}, ByService, IndexByService); err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Service{}, ByAddress, IndexByAddress); err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Service{}, ByNodes, IndexByNodes); err != nil {
		return err
	}
	changed := builder.WithPredicates(predicate.Funcs{UpdateFunc: serviceChanged})
	return ctrl.NewControllerManagedBy(mgr).Named("service").
		For(&corev1.Service{}, changed).
		// An address that one service leaves may be another's now.
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.Sharing), changed).
		Watches(&discoveryv1.EndpointSlice{}, handler.Funcs{
			CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				ask(q, e.Object)
			},
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				ask(q, e.Object)
			},
			// A slice that was given to another service is missed by the one, and new to the other.
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				ask(q, e.ObjectOld)
				ask(q, e.ObjectNew)
			},
		}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.PerNode), builder.WithPredicates(predicate.Funcs{UpdateFunc: zoneChanged})).
		Watches(&networkv1alpha1.NodeNetwork{}, handler.EnqueueRequestsFromMapFunc(r.PerNode), builder.WithPredicates(predicate.Funcs{UpdateFunc: chassisChanged})).
		WatchesRawSource(r.Trigger).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: trigger.Retries()}).
		Complete(trigger.Looked(r, r.Looked))
}

// PerNode asks for the services that have other backends on one node than on another.
func (r *Reconciler) PerNode(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	var list corev1.ServiceList
	if err := r.Client.List(ctx, &list, client.MatchingFields{ByNodes: "true"}); err != nil {
		return nil // the cache answers; it has no errors to give once it is in sync
	}
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// zoneChanged lets the updates of a node pass that change its zone.
func zoneChanged(e event.UpdateEvent) bool {
	return e.ObjectOld.GetLabels()[corev1.LabelTopologyZone] != e.ObjectNew.GetLabels()[corev1.LabelTopologyZone]
}

// chassisChanged lets the updates of a NodeNetwork pass that change its chassis.
func chassisChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.NodeNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.NodeNetwork)
	return !ok || !ok2 || before.Status.Chassis != after.Status.Chassis
}

// Sharing asks for the other services that have an address of a service.
func (r *Reconciler) Sharing(ctx context.Context, o client.Object) (requests []reconcile.Request) {
	service, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	others, err := r.sharing(ctx, service)
	if err != nil {
		return nil // the cache answers; it has no errors to give once it is in sync
	}
	for i := range others {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&others[i])})
	}
	return requests
}

func ask(q workqueue.TypedRateLimitingInterface[reconcile.Request], slice client.Object) {
	for _, service := range IndexByService(slice) {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: slice.GetNamespace(), Name: service}})
	}
}

// serviceChanged lets the updates pass that change addresses or how they are balanced.
func serviceChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Service)
	after, ok2 := e.ObjectNew.(*corev1.Service)
	return !ok || !ok2 || topology.Balanced(before) != topology.Balanced(after) || !maps.Equal(before.Annotations, after.Annotations) || !equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.Status.LoadBalancer, after.Status.LoadBalancer)
}
