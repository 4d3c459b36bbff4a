package clusternetwork

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// mtuMismatch names the links that do not carry the requested MTU. If the MTU is detected, it reports differing
// links. It returns "" without a mismatch.
func mtuMismatch(cn *networkv1alpha1.ClusterNetwork, networks []networkv1alpha1.NodeNetwork) string {
	wanted, carried := cn.Spec.MTU, facts.CarriedMTUs(cn.Spec.Encapsulation.Encryption, networks)
	if len(carried) == 0 {
		return ""
	}
	smallest, largest := carried[0].MTU, carried[len(carried)-1].MTU
	switch {
	case wanted != 0 && smallest < wanted:
		return fmt.Sprintf("spec.mtu %d is not in effect, because the links of these nodes carry less: %s; "+
			"pods have MTU %d, and the largest that all links carry is %d",
			wanted, nameSome(facts.BelowMTU(carried, wanted)), facts.ClusterMTU(cn, carried), smallest)
	case wanted == 0 && smallest < largest:
		return fmt.Sprintf(
			"pods have MTU %d because of the links of these nodes, others carry up to %d: %s; set spec.mtu: %d to accept this",
			smallest, largest, nameSome(facts.BelowMTU(carried, smallest+1)), smallest)
	}
	return ""
}

// recordMTU records an event for a change of the MTU in the status, because programs in running pods may have read
// the former MTU.
func (r *Reconciler) recordMTU(cn *networkv1alpha1.ClusterNetwork, want int32) {
	if was := cn.Status.MTU; was != 0 && want != 0 && was != want {
		r.Events.Eventf(cn, nil, corev1.EventTypeNormal, "MTUChanged", "ChooseMTU",
			"the MTU of pod interfaces is %d, was %d; it also changes in running pods", want, was)
	}
}
