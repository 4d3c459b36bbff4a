package v1alpha1

// The overhead of Geneve in bytes: outer IP (20 or 40), UDP 8, Geneve 8, OVN's option 8, inner Ethernet 14 (RFC 8926
// §3).
const (
	GeneveOverheadIPv4 = 58
	GeneveOverheadIPv6 = 78
)

// ESPOverhead is the overhead in bytes of ESP in transport mode with AES-GCM: header 8, IV 8, up to 3 of padding and 2 of trailer,
// ICV 16 (RFC 4303 §2, RFC 4106 §3), and UDP 8 where a NAT is between nodes (RFC 3948). It is rounded up to what ovn-kubernetes uses.
const ESPOverhead = 46

// PodMTU returns the MTU of pod interfaces for a link that tunnels packets from encapIP. It returns 0 if linkMTU is 0
// (unknown).
func PodMTU(linkMTU int32, encapIP IP, encryption Encryption) int32 {
	if linkMTU == 0 {
		return 0
	}
	if encryption == EncryptionIPsec {
		linkMTU -= ESPOverhead
	}
	if address, err := encapIP.Addr(); err == nil && address.Is6() {
		return linkMTU - GeneveOverheadIPv6
	}
	return linkMTU - GeneveOverheadIPv4
}
