package loadbalancer

import (
	"cmp"
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
