package hostnet

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Uplink is the link that holds an address.
type Uplink struct {
	Name string
	MTU  int
}

// LinkOf finds the link that holds an address of this host. It lists the addresses of all links at once: a node has hundreds
// of links, and the kernel would list all addresses for each.
func LinkOf(address netip.Addr) (Uplink, error) {
	addresses, err := complete(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return Uplink{}, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		if prefixOf(a.IPNet).Addr() != address {
			continue
		}
		link, err := netlink.LinkByIndex(a.LinkIndex)
		if err != nil {
			return Uplink{}, fmt.Errorf("link of address %s: %w", address, err)
		}
		return Uplink{Name: link.Attrs().Name, MTU: link.Attrs().MTU}, nil
	}
	return Uplink{}, fmt.Errorf("no link of this host has address %s", address)
}

// HasKernelDatapath reports whether the kernel's openvswitch module is there; asking loads it where it can be loaded.
func HasKernelDatapath() bool {
	_, err := netlink.GenlFamilyGet("ovs_datapath")
	return err == nil
}
