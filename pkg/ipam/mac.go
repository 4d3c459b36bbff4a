package ipam

import (
	"crypto/sha256"
	"net"
	"net/netip"
)

// MAC derives a port's MAC from its addresses as the field does: 0a:58 and the four bytes of the IPv4 address, or of the
// SHA-256 of the first IPv6 address where there is no IPv4.
func MAC(addresses []netip.Addr) net.HardwareAddr {
	for _, a := range addresses {
		if a.Is4() {
			ip := a.As4()
			return append(net.HardwareAddr{0x0a, 0x58}, ip[:]...)
		}
	}
	if len(addresses) == 0 {
		return nil
	}
	sum := sha256.Sum256(addresses[0].AsSlice())
	return append(net.HardwareAddr{0x0a, 0x58}, sum[:4]...)
}
