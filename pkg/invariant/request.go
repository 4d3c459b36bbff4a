package invariant

import (
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
)

// asksInVain reports whether a pod asks for what it cannot have: an address that no pod can have on its node or that another port has, a
// MAC that another port of its switch has or that is none, or what cannot be read.
func (v *view) asksInVain(pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork) bool {
	if _, err := networkv1alpha1.ParseBandwidth(pod.Annotations); err != nil {
		return true
	}
	return v.asksForAddresses(pod, nn) || v.asksForMAC(pod)
}

func (v *view) asksForAddresses(pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork) bool {
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

// asksForMAC believes a pod that asks for a MAC of a later pod's form: whether it is its own depends on the address that it would get.
func (v *view) asksForMAC(pod *corev1.Pod) bool {
	text, asks := pod.Annotations[networkv1alpha1.RequestedMACAnnotation]
	if !asks {
		return false
	}
	mac, err := networkv1alpha1.ParseRequestedMAC(text)
	return err != nil || ipam.CheckMAC(mac) != nil || v.hasMAC(pod.Spec.NodeName, mac)
}

// hasMAC looks at every port: few pods ask.
func (v *view) hasMAC(node string, mac net.HardwareAddr) bool {
	for _, port := range v.ports {
		on := slices.ContainsFunc(v.onSwitch[port.UUID], func(s *nbdb.LogicalSwitch) bool { return s.Name == names.NodeSwitch(node) })
		if on && slices.Contains(v.macsOf(port), mac.String()) {
			return true
		}
	}
	return false
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
