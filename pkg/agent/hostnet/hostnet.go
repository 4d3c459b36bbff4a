// Package hostnet applies the host's end of the management port through netlink. It writes only addresses and routes
// that differ.
package hostnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// protocol marks Weft's routes, so that foreign routes are left alone. rtnetlink.h does not use this number.
const protocol netlink.RouteProtocol = 84

// ErrNoLink means that the host has no link of that name.
var ErrNoLink = errors.New("the host has no such link")

// Apply gives the link exactly the wanted addresses and Weft routes, stops it from accepting router advertisements, and
// brings it up. It restores a changed MAC and MTU, if they are given. It removes other addresses, except link-local ones, and other Weft
// routes. It does not touch what is already correct. wrote reports whether it changed something.
func Apply(linkName string, want desired.Host) (wrote bool, err error) {
	link, err := netlink.LinkByName(linkName)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		err = ErrNoLink
	}
	if err != nil {
		return false, fmt.Errorf("link %s: %w", linkName, err)
	}
	for _, apply := range []func() (bool, error){
		func() (bool, error) { return ignoreRouters(linkName) },
		func() (bool, error) { return applySettings(link, want) },
		func() (bool, error) { return applyAddresses(link, want.Addresses) },
		func() (bool, error) { return applyRoutes(link, want.Routes) },
	} {
		did, err := apply()
		wrote = wrote || did
		if err != nil {
			return wrote, fmt.Errorf("link %s: %w", linkName, err)
		}
	}
	return wrote, nil
}

// applySettings restores the link's MAC and MTU and brings it up.
func applySettings(link netlink.Link, want desired.Host) (wrote bool, err error) {
	have := link.Attrs()
	if mac, err := net.ParseMAC(want.MAC); err == nil && have.HardwareAddr.String() != mac.String() {
		if err := netlink.LinkSetHardwareAddr(link, mac); err != nil {
			return wrote, fmt.Errorf("set MAC %s: %w", mac, err)
		}
		wrote = true
	}
	if want.MTU > 0 && have.MTU != want.MTU {
		if err := netlink.LinkSetMTU(link, want.MTU); err != nil {
			return wrote, fmt.Errorf("set MTU %d: %w", want.MTU, err)
		}
		wrote = true
	}
	if have.Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetUp(link); err != nil {
			return wrote, fmt.Errorf("bring up: %w", err)
		}
		wrote = true
	}
	return wrote, nil
}

// Clear removes Weft's routes and all addresses but link-local ones from the link. A missing link is not an error.
func Clear(linkName string) error {
	link, err := netlink.LinkByName(linkName)
	var notFound netlink.LinkNotFoundError
	if errors.As(err, &notFound) {
		return nil
	}
	if err == nil {
		if _, err = applyRoutes(link, nil); err == nil {
			_, err = applyAddresses(link, nil)
		}
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", linkName, err)
	}
	return nil
}

func applyAddresses(link netlink.Link, want []netip.Prefix) (wrote bool, err error) {
	have, err := addressesOf(link)
	if err != nil {
		return false, err
	}
	connected, err := connectedSubnets(link)
	if err != nil {
		return false, err
	}
	removed := false
	for p, address := range have {
		// Setting an address again restores the kernel's connected route if that route was removed.
		if slices.Contains(want, p) && connected[p.Masked()] || address.IP.IsLinkLocalUnicast() {
			continue
		}
		if err := netlink.AddrDel(link, &address); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return removed, fmt.Errorf("remove address %s: %w", p, err)
		}
		removed = true
	}
	if removed { // the kernel removes an IPv4 address together with later addresses of the same subnet
		if have, err = addressesOf(link); err != nil {
			return removed, err
		}
	}
	// The link's flags are from before Apply brought it up. The kernel adds the address itself when a link comes up.
	if link.Attrs().Flags&net.FlagUp != 0 {
		want = withLinkLocal(link, want, have)
	}
	added, err := addAddresses(link, want, have)
	return removed || added, err
}

// withLinkLocal adds a link-local address to the wanted ones if IPv6 is wanted and the link has no such address. The
// kernel adds one only when the link comes up, and does not restore it after someone removed it. Without it, the kernel
// does not send neighbour solicitations for packets whose source address belongs to another link.
func withLinkLocal(link netlink.Link, want []netip.Prefix, have map[netip.Prefix]netlink.Addr) []netip.Prefix {
	for p := range have {
		if p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() {
			return want
		}
	}
	wantsIPv6 := func() bool { return slices.ContainsFunc(want, func(p netip.Prefix) bool { return p.Addr().Is6() }) }
	if mac := link.Attrs().HardwareAddr; len(mac) == macLength && wantsIPv6() {
		return append(slices.Clone(want), netip.PrefixFrom(linkLocal(mac), 64))
	}
	return want
}

// macLength is the length of an Ethernet MAC address in bytes.
const macLength = 6

// linkLocal returns the link-local address that the kernel derives from a MAC address (RFC 4291, appendix A).
func linkLocal(mac net.HardwareAddr) netip.Addr {
	return netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5],
	})
}

// connectedSubnets returns the subnets that the kernel routes to the link because of the link's addresses.
func connectedSubnets(link netlink.Link) (map[netip.Prefix]bool, error) {
	kernels := &netlink.Route{LinkIndex: link.Attrs().Index, Protocol: unix.RTPROT_KERNEL}
	routes, err := complete(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_ALL, kernels, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	subnets := map[netip.Prefix]bool{}
	for i := range routes {
		subnets[prefixOf(routes[i].Dst)] = true
	}
	return subnets, nil
}

func addressesOf(link netlink.Link) (map[netip.Prefix]netlink.Addr, error) {
	list, err := complete(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	have := map[netip.Prefix]netlink.Addr{}
	for _, address := range list {
		have[prefixOf(address.IPNet)] = address
	}
	return have, nil
}

func addAddresses(link netlink.Link, want []netip.Prefix, have map[netip.Prefix]netlink.Addr) (wrote bool, err error) {
	for _, p := range want {
		if _, ok := have[p]; ok {
			continue
		}
		wrote = true
		address := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD // OVN assigns each address once; duplicate detection would only delay its use
		}
		if err := netlink.AddrAdd(link, address); err != nil && !errors.Is(err, unix.EEXIST) {
			return wrote, fmt.Errorf("add address %s: %w", p, err)
		}
	}
	return wrote, nil
}

func applyRoutes(link netlink.Link, want []desired.Route) (wrote bool, err error) {
	ours := &netlink.Route{LinkIndex: link.Attrs().Index, Protocol: protocol}
	have, err := complete(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_ALL, ours, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return wrote, fmt.Errorf("list routes: %w", err)
	}
	missing := map[desired.Route]bool{}
	for _, r := range want {
		missing[r] = true
	}
	for i := range have {
		r := routeOf(have[i])
		if missing[r] {
			delete(missing, r)
			continue
		}
		wrote = true
		if err := netlink.RouteDel(&have[i]); err != nil && !errors.Is(err, unix.ESRCH) {
			return wrote, fmt.Errorf("remove route %s: %w", r.Destination, err)
		}
	}
	for _, r := range want {
		if !missing[r] {
			continue
		}
		wrote = true
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(r.Destination), Gw: r.Gateway.AsSlice(), Protocol: protocol}
		if err := netlink.RouteReplace(route); err != nil {
			return wrote, fmt.Errorf("add route %s via %s: %w", r.Destination, r.Gateway, err)
		}
	}
	return wrote, nil
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

// complete repeats a list that the kernel marked as possibly incomplete because something changed during the dump.
func complete[T any](list func() ([]T, error)) ([]T, error) {
	const attempts = 10
	for range attempts - 1 {
		found, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return found, err
		}
	}
	return list()
}
