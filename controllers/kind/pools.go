package kind

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// NetworksChanged passes the events of the ClusterNetwork that change its spec, or which networks are in use.
func NetworksChanged() predicate.Predicate {
	return predicate.Or[client.Object](trigger.SpecChanged(), trigger.Changed(func(before, after *networkv1alpha1.ClusterNetwork) bool {
		return !facts.SameNetworks(before.Status.Networks, after.Status.Networks)
	}))
}

// BalancersChanged passes the events of LoadBalancerPools that change the ranges and addresses that they keep from others.
func BalancersChanged() predicate.Predicate {
	return predicate.Or[client.Object](trigger.SpecChanged(), trigger.Changed(func(before, after *networkv1alpha1.LoadBalancerPool) bool {
		return lbpool.Keeps(before) != lbpool.Keeps(after) ||
			!slices.Equal(before.Status.InUse, after.Status.InUse)
	}))
}

// EgressAddressesChanged passes the events of EgressIPs that change the addresses that they keep from others.
func EgressAddressesChanged() predicate.Predicate {
	return trigger.Changed(func(before, after *networkv1alpha1.EgressIP) bool {
		return !slices.Equal(facts.EgressAddressesInUse(before), facts.EgressAddressesInUse(after)) ||
			!slices.Equal(facts.GrantedEgressAddresses(before), facts.GrantedEgressAddresses(after))
	})
}
