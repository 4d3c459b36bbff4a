package service

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/floating"
)

// Exposed returns a request for each service that is reachable from outside, because the reservations have changed
// for all of them.
func (r *Reconciler) Exposed(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{ByExposed: "true"})
}

// pools finds the addresses of NAT pools for a service that has external addresses. Other services cost no read.
func (r *Reconciler) pools(ctx context.Context, service *corev1.Service) (func(netip.Addr) string, error) {
	if len(facts.ExternalAddresses(service)) == 0 {
		return func(netip.Addr) string { return "" }, nil
	}
	var all networkv1alpha1.IPPoolList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return nil, err
	}
	pools := floating.NewTranslated(all.Items)
	return func(a netip.Addr) string { return pools.Owner(a, service.CreationTimestamp) }, nil
}

// At returns a request for each service with one of these addresses. If an API server has one of them, node ports
// depend on it too.
func (r *Reconciler) At(ctx context.Context, addresses []netip.Addr) (requests []reconcile.Request) {
	servers, err := r.Reserved.ForNode(ctx, "")
	if err != nil {
		return r.Exposed(ctx, nil)
	}
	for _, address := range addresses {
		if servers.Has(address) {
			return r.Exposed(ctx, nil)
		}
		requests = append(requests, r.list(ctx, client.MatchingFields{ByAddress: address.String()})...)
	}
	return requests
}

func (r *Reconciler) list(ctx context.Context, option client.ListOption) (requests []reconcile.Request) {
	var list corev1.ServiceList
	if err := r.Client.List(ctx, &list, option, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// owners enqueues the services that have an address which a Node or NodeNetwork gained or lost.
func (r *Reconciler) owners() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue, addresses []netip.Addr) {
		for _, request := range r.At(ctx, addresses) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, NodeAddresses(e.Object)) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, NodeAddresses(e.Object)) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if before, after := NodeAddresses(e.ObjectOld), NodeAddresses(e.ObjectNew); !slices.Equal(before, after) {
				enqueue(ctx, q, append(before, after...))
			}
		},
	}
}

// NodeAddresses returns the node's addresses according to a Node or NodeNetwork.
func NodeAddresses(o client.Object) []netip.Addr {
	switch o := o.(type) {
	case *corev1.Node:
		return facts.InternalIPs(o)
	case *networkv1alpha1.NodeNetwork:
		return facts.GatewayAddresses(o)
	}
	return nil
}

// reservedChanged passes updates of the ClusterNetwork that change the reservations.
func reservedChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.ClusterNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.ClusterNetwork)
	return !ok || !ok2 || !equality.Semantic.DeepEqual(before.Spec.ReservedPorts, after.Spec.ReservedPorts) ||
		!equality.Semantic.DeepEqual(before.Spec.ClusterNetwork, after.Spec.ClusterNetwork)
}
