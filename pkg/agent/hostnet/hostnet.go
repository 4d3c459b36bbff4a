// Package hostnet applies the host's end of the management port: addresses and routes, by difference, through netlink.
package hostnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// protocol marks our routes, so that those of others are left alone; no number below 255 is taken in rtnetlink.h for it.
const protocol netlink.RouteProtocol = 84

// Apply gives the link its addresses and routes and brings it up. Addresses that it has and shall not have go, and so do
// routes of ours. What is as it shall be is not touched.
func Apply(linkName string, want desired.Host) error {
	link, err := netlink.LinkByName(linkName)
	if err != nil {
		return fmt.Errorf("link %s: %w", linkName, err)
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("link %s: bring up: %w", linkName, err)
		}
	}
	if err := applyAddresses(link, want.Addresses); err != nil {
		return fmt.Errorf("link %s: %w", linkName, err)
	}
	if err := applyRoutes(link, want.Routes); err != nil {
		return fmt.Errorf("link %s: %w", linkName, err)
	}
	return nil
}

func applyAddresses(link netlink.Link, want []netip.Prefix) error {
	have, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	wanted := map[netip.Prefix]bool{}
	for _, p := range want {
		wanted[p] = true
	}
	for i := range have {
		p := prefixOf(have[i].IPNet)
		if wanted[p] {
			delete(wanted, p)
		} else if !have[i].IP.IsLinkLocalUnicast() {
			if err := netlink.AddrDel(link, &have[i]); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
				return fmt.Errorf("remove address %s: %w", p, err)
			}
		}
	}
	for _, p := range want {
		if !wanted[p] {
			continue
		}
		address := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD // OVN gave the address to one port; detection would only delay it
		}
		if err := netlink.AddrAdd(link, address); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add address %s: %w", p, err)
		}
	}
	return nil
}

func applyRoutes(link netlink.Link, want []desired.Route) error {
	have, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: link.Attrs().Index, Protocol: protocol},
		netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	missing := map[desired.Route]bool{}
	for _, r := range want {
		missing[r] = true
	}
	for i := range have {
		r := routeOf(have[i])
		if missing[r] {
			delete(missing, r)
		} else if err := netlink.RouteDel(&have[i]); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove route %s: %w", r.Destination, err)
		}
	}
	for _, r := range want {
		if !missing[r] {
			continue
		}
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(r.Destination), Gw: r.Gateway.AsSlice(), Protocol: protocol}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("add route %s via %s: %w", r.Destination, r.Gateway, err)
		}
	}
	return nil
}

func routeOf(r netlink.Route) desired.Route {
	gateway, _ := netip.AddrFromSlice(r.Gw)
	return desired.Route{Destination: prefixOf(r.Dst), Gateway: gateway.Unmap()}
}

func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	address, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), bits)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Uplink is the link that holds an address.
type Uplink struct {
	Name string
	MTU  int
}

// LinkOf finds the link that holds an address of this host.
func LinkOf(address netip.Addr) (Uplink, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return Uplink{}, fmt.Errorf("list links: %w", err)
	}
	for _, link := range links {
		addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return Uplink{}, fmt.Errorf("link %s: list addresses: %w", link.Attrs().Name, err)
		}
		for i := range addresses {
			if prefixOf(addresses[i].IPNet).Addr() == address {
				return Uplink{Name: link.Attrs().Name, MTU: link.Attrs().MTU}, nil
			}
		}
	}
	return Uplink{}, fmt.Errorf("no link of this host has address %s", address)
}

// HasKernelDatapath reports whether the kernel's openvswitch module is there; asking loads it where it can be loaded.
func HasKernelDatapath() bool {
	_, err := netlink.GenlFamilyGet("ovs_datapath")
	return err == nil
}

// Watch calls changed when the named link, one of its addresses or one of its routes may have changed, until ctx ends.
func Watch(ctx context.Context, linkName string, changed func()) error {
	links, addresses, routes := make(chan netlink.LinkUpdate, 64), make(chan netlink.AddrUpdate, 64), make(chan netlink.RouteUpdate, 64)
	err := errors.Join(
		netlink.LinkSubscribe(links, ctx.Done()),
		netlink.AddrSubscribe(addresses, ctx.Done()),
		netlink.RouteSubscribe(routes, ctx.Done()))
	if err != nil {
		return fmt.Errorf("watch links: %w", err)
	}
	index := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case u, ok := <-links:
			if !ok {
				return errors.New("watch links: the kernel ended the subscription")
			}
			if u.Link.Attrs().Name == linkName {
				index = u.Link.Attrs().Index
				changed()
			}
		case u, ok := <-addresses:
			if ok && u.LinkIndex == index {
				changed()
			}
		case u, ok := <-routes:
			if ok && u.LinkIndex == index {
				changed()
			}
		}
	}
}
