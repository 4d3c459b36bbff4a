package hostnet

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ForgetUDP removes the kernel's conntrack entries for UDP to these destinations, so that the kernel translates the next
// datagram again. Otherwise a client that keeps sending from the same port would keep the translation of its first
// datagram, or no translation if the service did not exist yet.
func ForgetUDP(destinations []netip.AddrPort) error {
	filters := map[netlink.InetFamily][]netlink.CustomConntrackFilter{}
	for _, d := range destinations {
		filter := &netlink.ConntrackFilter{}
		err := errors.Join(filter.AddIP(netlink.ConntrackOrigDstIP, d.Addr().AsSlice()), filter.AddProtocol(unix.IPPROTO_UDP),
			filter.AddPort(netlink.ConntrackOrigDstPort, d.Port()))
		if err != nil {
			return fmt.Errorf("connections to %s: %w", d, err)
		}
		family := netlink.InetFamily(unix.AF_INET)
		if d.Addr().Is6() {
			family = unix.AF_INET6
		}
		filters[family] = append(filters[family], filter)
	}
	for family, wanted := range filters {
		if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, wanted...); err != nil {
			return fmt.Errorf("remove UDP conntrack entries: %w", err)
		}
	}
	return nil
}
