package topology

import (
	"cmp"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Collide reports whether two NodeNetworks have the same ID, or a subnet that both have. None collides with itself.
func Collide(a, b *networkv1alpha1.NodeNetwork) bool {
	if a.Name == b.Name {
		return false
	}
	if a.Spec.NodeID != 0 && a.Spec.NodeID == b.Spec.NodeID {
		return true
	}
	return slices.ContainsFunc(a.Spec.PodSubnets, func(subnet networkv1alpha1.CIDR) bool { return slices.Contains(b.Spec.PodSubnets, subnet) })
}

// Older reports whether a NodeNetwork was made before another; of one second, the one whose name comes first.
func Older(a, b *networkv1alpha1.NodeNetwork) bool {
	if x, y := a.CreationTimestamp.Time, b.CreationTimestamp.Time; !x.Equal(y) {
		return x.Before(y)
	}
	return cmp.Compare(a.Name, b.Name) < 0
}
