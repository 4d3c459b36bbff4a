package floatingip

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/floating"
)

// hosts returns the addresses outside the cluster that a NAT pool must not have: the addresses of nodes, of routers that
// nodes send to, and of all hosts of a node's network. A pod with such an address would receive the host's packets.
func (r *Pools) hosts(ctx context.Context, pool floating.Pool) (taken []floating.Taken, err error) {
	add := func(a netip.Addr, of string) { taken = append(taken, takenBy(a, of)) }
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return nil, err
	}
	for i := range nodes.Items {
		for _, text := range nodes.Items[i].Status.Addresses {
			if a, err := netip.ParseAddr(text.Address); err == nil { // it may be a name
				add(a, "node "+nodes.Items[i].Name)
			}
		}
	}
	var networks networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &networks, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return nil, err
	}
	for i := range networks.Items {
		gateway := networks.Items[i].Status.Gateway
		if gateway == nil {
			continue
		}
		for _, text := range gateway.Addresses {
			own, err := text.Prefix()
			if err != nil {
				continue // its own controller reports the error
			}
			add(own.Addr(), "node "+networks.Items[i].Name)
			for _, a := range []netip.Addr{own.Masked().Addr(), floating.Of(own).Last} {
				if _, has := pool.SegmentOf(a); has && facts.IsOfAll(own, a) {
					add(a, "all hosts of "+own.Masked().String()+", the network of the link outside of node "+networks.Items[i].Name)
				}
			}
		}
		for _, text := range gateway.NextHops {
			if hop, err := text.Addr(); err == nil {
				add(hop, "a router that node "+networks.Items[i].Name+" sends to")
			}
		}
	}
	return taken, nil
}

// hostChanged passes the updates that change what hosts returns.
func hostChanged(e event.UpdateEvent) bool {
	switch before := e.ObjectOld.(type) {
	case *corev1.Node:
		after, ok := e.ObjectNew.(*corev1.Node)
		return !ok || !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
	case *networkv1alpha1.NodeNetwork:
		after, ok := e.ObjectNew.(*networkv1alpha1.NodeNetwork)
		return !ok || !equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway)
	}
	return true
}
