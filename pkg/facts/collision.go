package facts

import (
	"cmp"
	"fmt"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Older reports whether a NodeNetwork was created before another. Names decide between two of the same second.
func Older(a, b *networkv1alpha1.NodeNetwork) bool {
	if x, y := a.CreationTimestamp.Time, b.CreationTimestamp.Time; !x.Equal(y) {
		return x.Before(y)
	}
	return cmp.Compare(a.Name, b.Name) < 0
}

// Claims returns the values that no two NodeNetworks may share, as texts: the ID and each subnet.
func Claims(nn *networkv1alpha1.NodeNetwork) (claims []string) {
	if nn.Spec.NodeID != 0 {
		claims = append(claims, fmt.Sprintf("id/%d", nn.Spec.NodeID))
	}
	for _, subnet := range nn.Spec.PodSubnets {
		claims = append(claims, "subnet/"+string(subnet))
	}
	return claims
}
