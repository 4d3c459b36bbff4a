package facts

import (
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// PortAddresses returns the addresses of a node at which node ports and host ports are served, in their order. Without
// a rule these are all but loopback and link-local addresses. internal are the Node's InternalIPs.
func PortAddresses(addresses []netip.Addr, rule []networkv1alpha1.NodePortAddress, internal []netip.Addr) (served []netip.Addr) {
	for _, a := range addresses {
		if !a.IsLoopback() && !a.IsLinkLocalUnicast() && selectsAddress(rule, a, internal) {
			served = append(served, a)
		}
	}
	return served
}

func selectsAddress(rule []networkv1alpha1.NodePortAddress, address netip.Addr, internal []netip.Addr) bool {
	return len(rule) == 0 || slices.ContainsFunc(rule, func(text networkv1alpha1.NodePortAddress) bool {
		if text == networkv1alpha1.PrimaryNodePortAddress {
			first := slices.IndexFunc(internal, func(a netip.Addr) bool { return a.Is4() == address.Is4() })
			return first >= 0 && internal[first] == address
		}
		network, err := netip.ParsePrefix(string(text))
		return err == nil && network.Contains(address)
	})
}
