package loadbalancer

import (
	"cmp"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/floating"
)

// Keeps reports whether a pool keeps its ranges from EgressIPs and IPPools. A refused pool whose addresses no Service
// has does not. A pool whose status does not follow its spec yet does.
func Keeps(pool *networkv1alpha1.LoadBalancerPool) bool {
	ready := meta.FindStatusCondition(pool.Status.Conditions, networkv1alpha1.ConditionReady)
	return ready == nil || ready.ObservedGeneration != pool.Generation || ready.Status != metav1.ConditionFalse ||
		pool.Status.Used > 0
}

// Older returns the pools that were created before another. A node answers for an address in their ranges because of them,
// even if they are refused, because the other pool is refused too.
func Older(pools []networkv1alpha1.LoadBalancerPool, than *networkv1alpha1.LoadBalancerPool) (older Pools) {
	for i := range pools {
		if pools[i].Name != than.Name && Precedes(&pools[i], than) {
			pool, _ := ParsePool(&pools[i]) // the readable ranges count: nodes answer for their addresses
			older = append(older, pool)
		}
	}
	return older
}

// Pools are several pools.
type Pools []Pool

// Contain reports whether an address belongs to a pool.
func (p Pools) Contain(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(pool Pool) bool { return pool.Contains(a) })
}

// Kept returns the ranges of the pools that take precedence over an EgressIP or IPPool with this creation time, sorted
// by the pools' names. It leaves out a range that cannot be parsed, because the status of its pool reports that.
func Kept(pools []networkv1alpha1.LoadBalancerPool, created metav1.Time) (taken []Taken) {
	for i := range pools {
		if pool := &pools[i]; !floating.Precedes(created, pool) && Keeps(pool) {
			for _, text := range pool.Spec.Addresses {
				if r, err := networkv1alpha1.ParseAddressRange(string(text)); err == nil {
					taken = append(taken, Taken{r, "LoadBalancerPool " + pool.Name})
				}
			}
		}
	}
	slices.SortStableFunc(taken, func(a, b Taken) int { return cmp.Compare(a.Of, b.Of) })
	return taken
}
