package invariant

import (
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
)

// isUnservable reports whether a pod's request cannot be met: an address that is invalid on its node or used by
// another port, a MAC that is invalid or used by another port of its switch, floating addresses that the pod does not all
// hold yet, Networks or floating addresses in a zone, or an unreadable request.
func (v *view) isUnservable(pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork) bool {
	if _, err := networkv1alpha1.ParseBandwidth(pod.Annotations); err != nil {
		return true
	}
	if nn.Spec.Zone != "" && (v.Requests != nil && v.Requests(pod) || pod.Annotations[networkv1alpha1.IPPoolAnnotation] != "") {
		return true // a zone serves neither
	}
	return v.areUnservableAddresses(pod, nn) || v.isUnservableMAC(pod) || v.awaitsFloating(pod)
}

func (v *view) areUnservableAddresses(pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork) bool {
	text, ok := pod.Annotations[networkv1alpha1.RequestedIPsAnnotation]
	if !ok {
		return false
	}
	requested, err := networkv1alpha1.ParseRequestedIPs(text)
	return err != nil || slices.ContainsFunc(requested, func(address netip.Addr) bool {
		possible := slices.ContainsFunc(subnetsOf(nn), func(s netip.Prefix) bool { return ipam.IsPodAddress(s, address) })
		return !possible || v.isUsed(address)
	})
}

// isUnservableMAC reports whether the pod's requested MAC is invalid or in use. A MAC with Weft's prefix counts as
// invalid, because whether it is the pod's own depends on the address that the pod would get.
func (v *view) isUnservableMAC(pod *corev1.Pod) bool {
	text, ok := pod.Annotations[networkv1alpha1.RequestedMACAnnotation]
	if !ok {
		return false
	}
	mac, err := networkv1alpha1.ParseRequestedMAC(text)
	return err != nil || ipam.CheckMAC(mac) != nil || v.hasMAC(pod.Spec.NodeName, mac)
}

// hasMAC scans all ports, because few pods request a MAC.
func (v *view) hasMAC(node string, mac net.HardwareAddr) bool {
	for _, port := range v.ports {
		on := slices.ContainsFunc(v.onSwitch[port.UUID], func(s *nbdb.LogicalSwitch) bool { return s.Name == names.NodeSwitch(node) })
		if on && slices.Contains(v.macsOf(port), mac.String()) {
			return true
		}
	}
	return false
}

// isUsed scans all ports, because few pods request an address.
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
