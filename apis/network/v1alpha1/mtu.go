package v1alpha1

// Overheads of Geneve in bytes: outer IP (20 or 40), UDP 8, Geneve 8, OVN's option 8, inner Ethernet 14 (RFC 8926 §3).
const (
	GeneveOverheadIPv4 = 58
	GeneveOverheadIPv6 = 78
)

// PodMTU is the MTU of pod interfaces that fits a link when packets are tunnelled from encapIP; 0 while the link is not known.
func PodMTU(linkMTU int32, encapIP IP) int32 {
	if linkMTU == 0 {
		return 0
	}
	if address, err := encapIP.Addr(); err == nil && address.Is6() {
		return linkMTU - GeneveOverheadIPv6
	}
	return linkMTU - GeneveOverheadIPv4
}
