package hostnet

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Route returns the prefix of the route by which this host reaches an address; a default route has length 0. ok is false
// if there is no route, if the address is the host's own, or if the route is over the link named except, whose routes
// are Weft's.
func Route(to netip.Addr, except string) (via netip.Prefix, ok bool) {
	routes, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil || len(routes) == 0 || routes[0].Type != unix.RTN_UNICAST {
		return netip.Prefix{}, false
	}
	if link, err := netlink.LinkByName(except); err == nil && link.Attrs().Index == routes[0].LinkIndex {
		return netip.Prefix{}, false
	}
	bits := 0
	if routes[0].Dst != nil {
		bits, _ = routes[0].Dst.Mask.Size()
	}
	via, err = to.Prefix(bits)
	return via, err == nil
}
