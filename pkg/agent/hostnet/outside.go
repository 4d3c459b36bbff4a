package hostnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// ErrNoDefaultRoute means that no default route shows which link leads outside.
var ErrNoDefaultRoute = errors.New("the main table has no default route")

// OutsideOf reads the named link's MAC, global addresses and default gateways. An empty name selects the link with the
// default route. Without a default route, that selection returns ErrNoDefaultRoute.
func OutsideOf(name string) (desired.Link, error) {
	defaults, err := defaultRoutes()
	if err != nil {
		return desired.Link{}, err
	}
	link, err := outsideLink(name, defaults)
	if err != nil {
		return desired.Link{}, err
	}
	outside := desired.Link{Name: link.Attrs().Name, MAC: link.Attrs().HardwareAddr.String()}
	for _, hop := range defaults {
		if hop.link == link.Attrs().Index && hop.gateway.IsValid() {
			outside.NextHops = append(outside.NextHops, hop.gateway)
		}
	}
	addresses, err := globalAddresses()
	outside.Addresses = addresses[link.Attrs().Index]
	return outside, err
}

// globalAddresses returns the host's global addresses by the indexes of their links. The kernel lists the addresses of all links
// in any case.
func globalAddresses() (map[int][]netip.Prefix, error) {
	addresses, err := complete(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	found := map[int][]netip.Prefix{}
	for _, a := range addresses {
		if netlink.Scope(a.Scope) == netlink.SCOPE_UNIVERSE && a.Flags&unix.IFA_F_DEPRECATED == 0 {
			found[a.LinkIndex] = append(found[a.LinkIndex], prefixOf(a.IPNet))
		}
	}
	return found, nil
}

// OtherLinks lists the host's Ethernet links that are up and have global addresses, by name, without those named.
func OtherLinks(except ...string) (found []desired.Link, err error) {
	links, err := complete(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	addresses, err := globalAddresses()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		a := link.Attrs()
		if slices.Contains(except, a.Name) || a.Flags&net.FlagUp == 0 || len(a.HardwareAddr) != macLength || len(addresses[a.Index]) == 0 {
			continue
		}
		found = append(found, desired.Link{Name: a.Name, MAC: a.HardwareAddr.String(), Addresses: addresses[a.Index]})
	}
	slices.SortFunc(found, func(a, b desired.Link) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// Exists reports whether the host has a link.
func Exists(name string) bool {
	_, err := netlink.LinkByName(name)
	return err == nil
}

// HasAddress reports whether a link has an address that is not link-local.
func HasAddress(name string) bool {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return false
	}
	addresses, err := complete(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	isGlobal := func(a netlink.Addr) bool { return !a.IP.IsLinkLocalUnicast() }
	return err == nil && slices.ContainsFunc(addresses, isGlobal)
}

func outsideLink(name string, defaults []hop) (netlink.Link, error) {
	if name != "" {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("link %s: %w", name, err)
		}
		return link, nil
	}
	if len(defaults) == 0 {
		return nil, ErrNoDefaultRoute
	}
	link, err := netlink.LinkByIndex(defaults[0].link)
	if err != nil {
		return nil, fmt.Errorf("link of the default route: %w", err)
	}
	return link, nil
}

// hop is the next hop of a default route. The gateway is invalid for a route without one, such as over a point-to-point
// link.
type hop struct {
	link    int
	gateway netip.Addr
}

// defaultRoutes lists the next hops of table main's default routes: IPv4 before IPv6, and preferred routes first.
func defaultRoutes() ([]hop, error) {
	var hops []hop
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := complete(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		routes = slices.DeleteFunc(routes, func(r netlink.Route) bool { return !isDefault(r.Dst) || r.Type != unix.RTN_UNICAST })
		slices.SortStableFunc(routes, func(a, b netlink.Route) int { return a.Priority - b.Priority })
		for i := range routes {
			hops = append(hops, hopsOf(&routes[i])...)
		}
	}
	return hops, nil
}

func isDefault(n *net.IPNet) bool {
	if n == nil {
		return true
	}
	bits, _ := n.Mask.Size()
	return bits == 0
}

func hopsOf(r *netlink.Route) []hop {
	if len(r.MultiPath) == 0 {
		return []hop{{r.LinkIndex, addrOf(r.Gw)}}
	}
	hops := make([]hop, 0, len(r.MultiPath))
	for _, path := range r.MultiPath {
		hops = append(hops, hop{path.LinkIndex, addrOf(path.Gw)})
	}
	return hops
}

func addrOf(ip net.IP) netip.Addr {
	address, _ := netip.AddrFromSlice(ip)
	return address.Unmap()
}
