package invariant

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

// asksInVain reports whether a pod asks for addresses that it cannot have: none that a pod can have on its node, one that another
// port has, or what is no address.
func (v *view) asksInVain(pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork) bool {
	text, asks := pod.Annotations[networkv1alpha1.RequestedIPsAnnotation]
	if !asks {
		return false
	}
	requested, err := networkv1alpha1.ParseRequestedIPs(text)
	return err != nil || slices.ContainsFunc(requested, func(address netip.Addr) bool {
		possible := slices.ContainsFunc(subnetsOf(nn), func(s netip.Prefix) bool { return ipam.IsPodAddress(s, address) })
		return !possible || v.isUsed(address)
	})
}

// isUsed looks at every port: few pods ask.
func (v *view) isUsed(address netip.Addr) bool {
	for _, port := range v.ports {
		for _, element := range addressesOf(port) {
			if slices.Contains(element.Addresses, address) {
				return true
			}
		}
	}
	return false
}
