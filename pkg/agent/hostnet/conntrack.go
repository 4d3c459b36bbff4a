package hostnet

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// ForgetUDP removes the kernel's conntrack entries for UDP to these destinations that go elsewhere, and entries that began with a
// reply from them: with the host's reply on the external bridge, or with a reply that came just after its entry was removed. The
// next datagram is then translated again. Otherwise a client that keeps sending from the same port would keep the translation of
// its first datagram, or no translation if the service did not exist yet.
func ForgetUDP(targets map[netip.AddrPort]desired.UDPTarget) error {
	if len(targets) == 0 {
		return nil
	}
	return forgetUDP(func(f *netlink.ConntrackFlow) bool {
		if _, isReply := targets[end(f.Forward.SrcIP, f.Forward.SrcPort)]; isReply {
			return true
		}
		target, ok := targets[end(f.Forward.DstIP, f.Forward.DstPort)]
		return ok && !slices.Contains(target.To, end(f.Reverse.SrcIP, f.Reverse.SrcPort))
	})
}

func end(ip net.IP, port uint16) netip.AddrPort {
	address, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(address.Unmap(), port)
}

// udpFilter selects UDP entries for netlink.
type udpFilter func(*netlink.ConntrackFlow) bool

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (f udpFilter) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	return flow.Forward.Protocol == unix.IPPROTO_UDP && f(flow)
}

func forgetUDP(selected udpFilter) error {
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, selected); err != nil {
			return fmt.Errorf("remove UDP conntrack entries: %w", err)
		}
	}
	return nil
}
