package hostnet

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// AddressesIn lists the addresses of the host in some networks, with their links.
func AddressesIn(networks []netip.Prefix) ([]desired.LinkAddress, error) {
	return listAddresses(func(a netlink.Addr) bool {
		return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(prefixOf(a.IPNet).Addr()) })
	})
}

// Addresses lists the addresses of the host that are valid everywhere and usable, with their links.
func Addresses() (found []desired.LinkAddress, err error) {
	return listAddresses(func(a netlink.Addr) bool {
		return netlink.Scope(a.Scope) == netlink.SCOPE_UNIVERSE && a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) == 0
	})
}

// listAddresses lists the addresses of all links in one request: a node has hundreds of links, and the kernel would list all
// addresses for each of them.
func listAddresses(is func(netlink.Addr) bool) (found []desired.LinkAddress, err error) {
	addresses, err := complete(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		if !is(a) {
			continue
		}
		link, err := netlink.LinkByIndex(a.LinkIndex)
		if err != nil {
			continue // it has just gone, and its addresses with it
		}
		found = append(found, desired.LinkAddress{Address: prefixOf(a.IPNet).Addr(), Link: link.Attrs().Name, MTU: link.Attrs().MTU})
	}
	return found, nil
}

// HasKernelDatapath reports whether the kernel has the openvswitch module. The query loads the module if it can be
// loaded.
func HasKernelDatapath() bool {
	_, err := netlink.GenlFamilyGet("ovs_datapath")
	return err == nil
}
