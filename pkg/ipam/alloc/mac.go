package alloc

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/weft-network/weft/pkg/ipam"
)

// takeMAC gives the requested MAC, or the one that follows from the addresses. Two that follow from addresses are different because the
// addresses are; a requested one with their prefix could be that of a later pod, or of the router, and is given to nobody else.
func (n *node) takeMAC(owner string, requested net.HardwareAddr, addresses []netip.Prefix) (net.HardwareAddr, error) {
	own := macOf(addresses)
	if len(requested) == 0 || bytes.Equal(requested, own) {
		return own, nil
	}
	if err := ipam.CheckMAC(requested); err != nil {
		return nil, fmt.Errorf("requested MAC %s is %w: %w", requested, ErrUnavailable, err)
	}
	if other, used := n.macs[requested.String()]; used && other != owner {
		return nil, fmt.Errorf("requested MAC %s is %w: it is in use", requested, ErrUnavailable)
	}
	n.macs[requested.String()] = owner
	return requested, nil
}

func (n *node) giveBackMAC(owner string, mac net.HardwareAddr) {
	if n.macs[mac.String()] == owner {
		delete(n.macs, mac.String())
	}
}

func macOf(addresses []netip.Prefix) net.HardwareAddr {
	plain := make([]netip.Addr, len(addresses))
	for i, address := range addresses {
		plain[i] = address.Addr()
	}
	slices.SortStableFunc(plain, func(a, b netip.Addr) int { return cmp.Compare(a.BitLen(), b.BitLen()) })
	return ipam.MAC(plain)
}
