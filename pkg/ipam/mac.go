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

// macPrefix begins the MACs of routers, hosts and of pods that ask for none.
var macPrefix = []byte{0x0a, 0x58}

// CheckMAC says why a MAC cannot be a pod's own choice: it is not an Ethernet address, not one of a single interface (IEEE 802-2014
// §8.2), or begins as those that Weft gives.
func CheckMAC(mac net.HardwareAddr) error {
	switch {
	case len(mac) != ethernet:
		return fmt.Errorf("it has %d bytes, not %d", len(mac), ethernet)
	case mac[0]&1 != 0:
		return errors.New("it is a group's address")
	case bytes.Equal(mac, make([]byte, ethernet)):
		return errors.New("it is no address")
	case bytes.HasPrefix(mac, macPrefix):
		return fmt.Errorf("%s:... is for MACs that follow from IP addresses", net.HardwareAddr(macPrefix))
	}
	return nil
}

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
