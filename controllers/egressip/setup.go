package egressip

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
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

// SetupWithManager registers the controller. It reconciles one EgressIP after the other: each choice counts what the others have.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("egressip").
		For(&networkv1alpha1.EgressIP{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: changed})).
		// An address that one leaves may be another's now. One that comes takes it, where both are of the same second and it is first by name.
		Watches(&networkv1alpha1.EgressIP{}, handler.EnqueueRequestsFromMapFunc(r.Sharing), builder.WithPredicates(predicate.Funcs{UpdateFunc: specChanged})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.every), builder.WithPredicates(predicate.Funcs{UpdateFunc: nodeChanged})).
		Watches(&networkv1alpha1.NodeNetwork{}, handler.EnqueueRequestsFromMapFunc(r.every), builder.WithPredicates(predicate.Funcs{UpdateFunc: networkChanged})).
		Watches(&networkv1alpha1.ClusterNetwork{}, handler.EnqueueRequestsFromMapFunc(r.every), builder.WithPredicates(trigger.SpecChanged())).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.On), builder.WithPredicates(predicate.Funcs{UpdateFunc: addressesChanged})).
		WatchesRawSource(r.Trigger).
		WithOptions(controller.Options{RateLimiter: trigger.Retries()}).
		Complete(r)
}

// changed lets changes of the spec and the status pass, our own too: a decision that was compared with a status from before the last write, and
// left out as nothing new, is made again when that write comes.
func changed(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.EgressIP)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.EgressIP)
	return specChanged(e) || !ok || !ok2 || !equality.Semantic.DeepEqual(before.Status, after.Status)
}

// specChanged lets changes of the spec pass.
func specChanged(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
}

// nodeChanged lets changes pass of who may carry addresses, and of the node's own.
func nodeChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	return !ok || !ok2 || topology.Assignable(before) != topology.Assignable(after) ||
		!equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}

// networkChanged lets changes pass of the node's gateway router.
func networkChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.NodeNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.NodeNetwork)
	return !ok || !ok2 || before.Generation != after.Generation || before.Status.Chassis != after.Status.Chassis ||
		!equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway)
}

// addressesChanged lets changes pass of the addresses that a service is balanced on.
func addressesChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Service)
	after, ok2 := e.ObjectNew.(*corev1.Service)
	return !ok || !ok2 || !slices.Equal(topology.ServiceAddresses(before), topology.ServiceAddresses(after))
}

func (r *Reconciler) list(ctx context.Context) []networkv1alpha1.EgressIP {
	var list networkv1alpha1.EgressIPList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // the cache answers; it has no errors to give once it is in sync
	}
	return list.Items
}

func (r *Reconciler) every(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.Every(ctx)
}

// Every asks for all.
func (r *Reconciler) Every(ctx context.Context) []reconcile.Request {
	return r.that(ctx, func(*networkv1alpha1.EgressIP) bool { return true })
}

// Sharing asks for the other EgressIPs that have an address of one.
func (r *Reconciler) Sharing(ctx context.Context, o client.Object) []reconcile.Request {
	e, ok := o.(*networkv1alpha1.EgressIP)
	if !ok {
		return nil
	}
	addresses, _ := topology.EgressAddresses(e)
	return r.that(ctx, func(other *networkv1alpha1.EgressIP) bool {
		have, err := topology.EgressAddresses(other)
		return err == nil && other.Name != e.Name && slices.ContainsFunc(have, func(a netip.Addr) bool { return slices.Contains(addresses, a) })
	})
}

// On asks for the EgressIPs that have an address that a service is balanced on, or is not any more and no node carries.
func (r *Reconciler) On(ctx context.Context, o client.Object) []reconcile.Request {
	service, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	addresses := topology.ServiceAddresses(service)
	return r.that(ctx, func(e *networkv1alpha1.EgressIP) bool {
		have, err := topology.EgressAddresses(e)
		return err == nil && (len(have) != len(e.Status.Items) || slices.ContainsFunc(have, func(a netip.Addr) bool { return slices.Contains(addresses, a) }))
	})
}

func (r *Reconciler) that(ctx context.Context, which func(*networkv1alpha1.EgressIP) bool) (requests []reconcile.Request) {
	for _, e := range r.list(ctx) {
		if which(&e) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: e.Name}})
		}
	}
	return requests
}
