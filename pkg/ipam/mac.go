package ipam

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// ethernet is the length of a MAC in bytes.
const ethernet = 6

// macPrefix is the prefix of the MACs of routers, hosts, and pods without a requested MAC.
var macPrefix = []byte{0x0a, 0x58}

// CheckMAC returns an error if a pod must not request a MAC: it is not an Ethernet address, it is not the address of
// a single interface (IEEE 802-2014 §8.2), or it has the prefix of the MACs that Weft assigns.
func CheckMAC(mac net.HardwareAddr) error {
	switch {
	case len(mac) != ethernet:
		return fmt.Errorf("it has %d bytes, not %d", len(mac), ethernet)
	case mac[0]&1 != 0:
		return errors.New("it is a group address")
	case bytes.Equal(mac, make([]byte, ethernet)):
		return errors.New("it is the zero address")
	case bytes.HasPrefix(mac, macPrefix):
		return fmt.Errorf("%s:... is the prefix of MACs that are derived from IP addresses", net.HardwareAddr(macPrefix))
	}
	return nil
}

// IsDerived reports whether a MAC has the prefix of MACs that MAC derives.
func IsDerived(mac net.HardwareAddr) bool {
	return len(mac) == ethernet && bytes.HasPrefix(mac, macPrefix)
}

// MAC derives a port's MAC from its addresses in the same way as other OVN CNIs: 0a:58 followed by the four bytes of
// the IPv4 address, or of the SHA-256 of the first IPv6 address without IPv4.
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

// LinkLocal returns the IPv6 link-local address of an interface with a MAC of six bytes (RFC 4291 §2.5.1, appendix A).
func LinkLocal(mac net.HardwareAddr) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: mac[0] ^ 0x02, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]})
}
