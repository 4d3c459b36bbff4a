package hostnet

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ForgetUDP makes the kernel look anew at datagrams to these addresses and ports. A client that keeps its port would go on, for as long as it
// sends, to where its first datagram went: to nobody, where the service was not there yet.
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
			return fmt.Errorf("forget connections: %w", err)
		}
	}
	return nil
}
