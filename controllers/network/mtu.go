package network

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// effectiveMTU returns the requested MTU, or the smallest link's without the tunnel's overhead. It is 0 until an
// agent has reported.
func effectiveMTU(wanted int32, encryption networkv1alpha1.Encryption, networks []networkv1alpha1.NodeNetwork) int32 {
	if wanted != 0 {
		return wanted
	}
	carried := carriedMTUs(encryption, networks)
	if len(carried) == 0 {
		return 0
	}
	return carried[0].mtu
}

// carriedMTU is the largest MTU of pods that a node's link carries.
type carriedMTU struct {
	node string
	mtu  int32 // bytes
}

// carriedMTUs lists the nodes whose agents have reported, sorted by MTU and name.
func carriedMTUs(encryption networkv1alpha1.Encryption, networks []networkv1alpha1.NodeNetwork) []carriedMTU {
	var carried []carriedMTU
	for i := range networks {
		if s := networks[i].Status; s.LinkMTU != 0 {
			carried = append(carried, carriedMTU{networks[i].Name, networkv1alpha1.PodMTU(s.LinkMTU, s.EncapIP, encryption)})
		}
	}
	slices.SortFunc(carried, func(a, b carriedMTU) int { return cmp.Or(cmp.Compare(a.mtu, b.mtu), cmp.Compare(a.node, b.node)) })
	return carried
}

// mtuMismatch names the links that do not carry the requested MTU. If the MTU is detected, it reports differing
// links. It returns "" without a mismatch.
func mtuMismatch(wanted int32, encryption networkv1alpha1.Encryption, networks []networkv1alpha1.NodeNetwork) string {
	carried := carriedMTUs(encryption, networks)
	if len(carried) == 0 {
		return ""
	}
	smallest, largest := carried[0].mtu, carried[len(carried)-1].mtu
	switch {
	case wanted != 0 && smallest < wanted:
		return fmt.Sprintf("spec.mtu is %d, but the links of these nodes carry less, so that larger packets of pods are lost there: %s",
			wanted, nameSome(below(carried, wanted)))
	case wanted == 0 && smallest < largest:
		return fmt.Sprintf(
			"pods have MTU %d because of the links of these nodes, others carry up to %d: %s; set spec.mtu: %d to accept this",
			smallest, largest, nameSome(below(carried, smallest+1)), smallest)
	}
	return ""
}

// below names the nodes that carry less than an MTU, with their MTU.
func below(carried []carriedMTU, mtu int32) []string {
	var names []string
	for _, c := range carried {
		if c.mtu < mtu {
			names = append(names, fmt.Sprintf("%s (%d)", c.node, c.mtu))
		}
	}
	return names
}

// recordMTU records an event for a change of the MTU in the status, because programs in running pods may have read
// the former MTU.
func (r *Reconciler) recordMTU(cn *networkv1alpha1.ClusterNetwork, want int32) {
	if was := cn.Status.MTU; was != 0 && want != 0 && was != want {
		r.Events.Eventf(cn, nil, corev1.EventTypeNormal, "MTUChanged", "ChooseMTU",
			"the MTU of pod interfaces is %d, was %d; it also changes in running pods", want, was)
	}
}
