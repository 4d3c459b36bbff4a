package floatingip

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
)

// egressIPs returns the addresses of the EgressIPs that take precedence over a pool. The other EgressIPs yield to it.
func (r *Pools) egressIPs(ctx context.Context, pool *networkv1alpha1.IPPool) (taken []floating.Taken, err error) {
	var all networkv1alpha1.EgressIPList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if e := &all.Items[i]; floating.Precedes(e.CreationTimestamp, pool) {
			for _, a := range facts.EgressAddressesInUse(e) {
				taken = append(taken, takenBy(a, "EgressIP "+e.Name))
			}
		}
	}
	return taken, nil
}

// services returns the addresses in the ranges of a pool that Services have. A Service that waits for an address does not have it.
func (r *Pools) services(ctx context.Context, pool floating.Pool) (taken []floating.Taken, err error) {
	var all corev1.ServiceList
	var pools networkv1alpha1.IPPoolList
	var egressIPs networkv1alpha1.EgressIPList
	if err := errors.Join(r.Client.List(ctx, &all, client.MatchingFields{balance.ByExposed: "true"}),
		r.Client.List(ctx, &pools),
		r.Client.List(ctx, &egressIPs)); err != nil {
		return nil, err
	}
	claims := balance.NewClaims(pools.Items, egressIPs.Items)
	for i := range all.Items {
		s := &all.Items[i]
		for _, a := range facts.ExternalAddresses(s) {
			if _, has := pool.SegmentOf(a); has && claims.Owner(s, a) == "" {
				taken = append(taken, takenBy(a, "Service "+s.Namespace+"/"+s.Name))
			}
		}
	}
	return taken, nil
}

// loadBalancerPools returns the ranges of the LoadBalancerPools that take precedence over a pool. The other
// LoadBalancerPools yield to it.
func (r *Pools) loadBalancerPools(ctx context.Context, pool *networkv1alpha1.IPPool) (taken []floating.Taken, err error) {
	var all networkv1alpha1.LoadBalancerPoolList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	for _, t := range lbpool.Kept(all.Items, pool.CreationTimestamp) {
		taken = append(taken, floating.Taken(t))
	}
	return taken, nil
}

func takenBy(a netip.Addr, of string) floating.Taken {
	return floating.Taken{AddressRange: networkv1alpha1.AddressRange{First: a, Last: a}, Of: of}
}

// externalChanged passes the events of Services that add or remove external addresses.
func externalChanged() predicate.Funcs {
	external := func(o client.Object) []netip.Addr {
		if s, ok := o.(*corev1.Service); ok {
			return facts.ExternalAddresses(s)
		}
		return nil
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return len(external(e.Object)) > 0 },
		DeleteFunc: func(e event.DeleteEvent) bool { return len(external(e.Object)) > 0 },
		UpdateFunc: func(e event.UpdateEvent) bool { return !slices.Equal(external(e.ObjectOld), external(e.ObjectNew)) },
	}
}
