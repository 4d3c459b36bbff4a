package lbpool

import (
	"cmp"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// Keeps reports whether a pool keeps its ranges from EgressIPs and IPPools. A refused pool whose addresses no Service
// has does not. A pool whose status does not follow its spec yet does.
func Keeps(pool *networkv1alpha1.LoadBalancerPool) bool {
	ready := meta.FindStatusCondition(pool.Status.Conditions, networkv1alpha1.ConditionReady)
	return ready == nil || ready.ObservedGeneration != pool.Generation || ready.Status != metav1.ConditionFalse ||
		pool.Status.Used > 0
}

// Pools are several pools, the oldest first.
type Pools []Pool

// ByAge returns the pools, the oldest first, and their objects in the same order.
func ByAge(objects []networkv1alpha1.LoadBalancerPool) (pools Pools, of []*networkv1alpha1.LoadBalancerPool) {
	for i := range objects {
		of = append(of, &objects[i])
	}
	slices.SortFunc(of, func(a, b *networkv1alpha1.LoadBalancerPool) int {
		if Precedes(a, b) {
			return -1
		}
		return 1
	})
	for _, object := range of {
		pool, _ := ParsePool(object) // the readable fields count: Services keep their addresses
		pools = append(pools, pool)
	}
	return pools, of
}

// Owner returns the index of the pool because of which nodes announce an address: the oldest pool with the address in its ranges, even
// if it is refused, else the oldest pool that gave it. Without such a pool it returns -1.
func (p Pools) Owner(a netip.Addr) int {
	if i := slices.IndexFunc(p, func(pool Pool) bool { return pool.Contains(a) }); i >= 0 {
		return i
	}
	return slices.IndexFunc(p, func(pool Pool) bool { return pool.Gave(a) })
}

// Kept returns the ranges of the pools that take precedence over an EgressIP or IPPool with this creation time, and the addresses that
// Services have of all pools, sorted by the pools' names. It leaves out a range that cannot be parsed, because the status of its pool
// reports that.
func Kept(pools []networkv1alpha1.LoadBalancerPool, created metav1.Time) (taken []Taken) {
	for i := range pools {
		pool := &pools[i]
		read, _ := ParsePool(pool) // the readable fields count
		precedes := !floating.Precedes(created, pool) && Keeps(pool)
		if precedes {
			for _, r := range read.Ranges {
				taken = append(taken, Taken{r, "LoadBalancerPool " + pool.Name})
			}
		}
		for _, a := range read.InUse {
			if !precedes || !read.Contains(a) {
				taken = append(taken, One(a, "LoadBalancerPool "+pool.Name))
			}
		}
	}
	slices.SortStableFunc(taken, func(a, b Taken) int { return cmp.Compare(a.Of, b.Of) })
	return taken
}
