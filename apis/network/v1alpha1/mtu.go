package v1alpha1

// The overhead of Geneve in bytes: outer IP (20 or 40), UDP 8, Geneve 8, OVN's option 8, inner Ethernet 14 (RFC 8926
// §3).
const (
	GeneveOverheadIPv4 = 58
	GeneveOverheadIPv6 = 78
)

// PodMTU returns the MTU of pod interfaces for a link that tunnels packets from encapIP. It returns 0 if linkMTU is 0
// (unknown).
func PodMTU(linkMTU int32, encapIP IP) int32 {
	if linkMTU == 0 {
		return 0
	}
	if address, err := encapIP.Addr(); err == nil && address.Is6() {
		return linkMTU - GeneveOverheadIPv6
	}
	return linkMTU - GeneveOverheadIPv4
}
