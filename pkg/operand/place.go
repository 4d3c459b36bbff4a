package operand

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// controlPlane is the label of nodes where databases are to be, where there are such nodes.
const controlPlane = "node-role.kubernetes.io/control-plane"

// Place is where OVN's databases are.
type Place struct {
	Node string
	// Addresses are the node's internal ones, at least one.
	Addresses []netip.Addr
}

// PlaceOf chooses the node of the databases: the one of before as long as it is there, since its data are there. Else a node of the control plane,
// or any where none is one; of these the first by name, those first that take pods. ok is false while no node will do.
func PlaceOf(before string, nodes []corev1.Node) (place Place, ok bool) {
	var candidates []corev1.Node
	for _, n := range nodes {
		if n.DeletionTimestamp == nil && len(addressesOf(n)) > 0 {
			candidates = append(candidates, n)
		}
	}
	if len(candidates) == 0 {
		return Place{}, false
	}
	best := slices.MinFunc(candidates, func(a, b corev1.Node) int {
		return cmp.Or(cmp.Compare(rank(b, before), rank(a, before)), cmp.Compare(a.Name, b.Name))
	})
	return Place{best.Name, addressesOf(best)}, true
}

// rank is higher for what is preferred.
func rank(n corev1.Node, before string) int {
	_, control := n.Labels[controlPlane]
	score := 0
	for _, good := range []bool{n.Name == before, control, !n.Spec.Unschedulable} {
		score *= 2
		if good {
			score++
		}
	}
	return score
}

func addressesOf(n corev1.Node) []netip.Addr {
	var found []netip.Addr
	for _, a := range n.Status.Addresses {
		if parsed, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			found = append(found, parsed)
		}
	}
	return found
}
