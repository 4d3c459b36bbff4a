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

// takeMAC assigns the requested MAC, or the MAC that is derived from the addresses. Derived MACs differ because the
// addresses do. A requested MAC with their prefix is refused unless it is the owner's derived MAC, because it could
// be a later pod's or the router's.
func (n *node) takeMAC(owner Owner, requested net.HardwareAddr, addresses []netip.Prefix) (net.HardwareAddr, error) {
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

// AllocateMAC assigns only a MAC to an owner, on a switch whose pods configure themselves. An owner that has a MAC there keeps it. The
// error wraps ErrUnavailable if another owner has the MAC.
func (a *Allocator) AllocateMAC(nodeName string, owner Owner, mac net.HardwareAddr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[nodeName]
	if n == nil {
		n = emptyNode()
		a.nodes[nodeName] = n
	}
	if on, ok := a.owners[owner]; ok && on == nodeName {
		return nil
	}
	if _, used := n.macs[mac.String()]; used {
		return fmt.Errorf("requested MAC %s is %w: it is in use", mac, ErrUnavailable)
	}
	a.release(owner)
	n.macs[mac.String()], n.owners[owner], a.owners[owner] = owner, Assignment{MAC: mac}, nodeName
	return nil
}

// UserOfMAC returns the owner that has a MAC that was requested, in lower case; empty: none.
func (a *Allocator) UserOfMAC(mac string) Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.nodes {
		if owner := n.macs[mac]; owner != "" {
			return owner
		}
	}
	return ""
}

func (n *node) giveBackMAC(owner Owner, mac net.HardwareAddr) {
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
