package hostnet

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// AddressesIn lists the addresses of the host in some networks, with their links. It lists the addresses of all links in
// one request: a node has hundreds of links, and the kernel would list all addresses for each of them.
func AddressesIn(networks []netip.Prefix) (found []desired.LinkAddress, err error) {
	addresses, err := complete(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		address := prefixOf(a.IPNet).Addr()
		if !slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(address) }) {
			continue
		}
		link, err := netlink.LinkByIndex(a.LinkIndex)
		if err != nil {
			continue // it has just gone, and its addresses with it
		}
		found = append(found, desired.LinkAddress{Address: address, Link: link.Attrs().Name, MTU: link.Attrs().MTU})
	}
	return found, nil
}

// HasKernelDatapath reports whether the kernel has the openvswitch module. The query loads the module if it can be
// loaded.
func HasKernelDatapath() bool {
	_, err := netlink.GenlFamilyGet("ovs_datapath")
	return err == nil
}
