package network

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// effectiveMTU returns the requested MTU, or the smallest link's without the tunnel's overhead. It is 0 until an
// agent has reported.
func effectiveMTU(wanted int32, encryption networkv1alpha1.Encryption, networks []networkv1alpha1.NodeNetwork) int32 {
	if wanted != 0 {
		return wanted
	}
	carried := facts.CarriedMTUs(encryption, networks)
	if len(carried) == 0 {
		return 0
	}
	return carried[0].MTU
}

// mtuMismatch names the links that do not carry the requested MTU. If the MTU is detected, it reports differing
// links. It returns "" without a mismatch.
func mtuMismatch(wanted int32, encryption networkv1alpha1.Encryption, networks []networkv1alpha1.NodeNetwork) string {
	carried := facts.CarriedMTUs(encryption, networks)
	if len(carried) == 0 {
		return ""
	}
	smallest, largest := carried[0].MTU, carried[len(carried)-1].MTU
	switch {
	case wanted != 0 && smallest < wanted:
		return fmt.Sprintf("spec.mtu is %d, but the links of these nodes carry less, so that larger packets of pods are lost there: %s",
			wanted, nameSome(facts.BelowMTU(carried, wanted)))
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
