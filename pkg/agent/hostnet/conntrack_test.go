package hostnet_test

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
)

// track adds a connection to the kernel's conntrack table.
func track(t *testing.T, family netlink.InetFamily, protocol uint8, source, destination string, port uint16) {
	t.Helper()
	there := netlink.IPTuple{
		Protocol: protocol, SrcIP: netip.MustParseAddr(source).AsSlice(), SrcPort: 40000,
		DstIP: netip.MustParseAddr(destination).AsSlice(), DstPort: port,
	}
	back := netlink.IPTuple{Protocol: protocol, SrcIP: there.DstIP, SrcPort: port, DstIP: there.SrcIP, DstPort: 40000}
	flow := &netlink.ConntrackFlow{FamilyType: uint8(family), Forward: there, Reverse: back, TimeOut: 100}
	if protocol == unix.IPPROTO_TCP {
		flow.ProtoInfo = &netlink.ProtoInfoTCP{State: 3} // established
	}
	if err := netlink.ConntrackCreate(netlink.ConntrackTable, family, flow); err != nil {
		t.Fatalf("connection to %s: %v", destination, err)
	}
}

func tracked(t *testing.T) (count int) {
	t.Helper()
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
		if err != nil {
			t.Fatal(err)
		}
		count += len(flows)
	}
	return count
}

// ForgetUDP removes the UDP connections to the given destinations and UDP connections that began with their reply, and no others.
func TestForgetUDP(t *testing.T) {
	track(t, unix.AF_INET, unix.IPPROTO_UDP, "192.0.2.1", "172.18.0.11", 30053)
	track(t, unix.AF_INET6, unix.IPPROTO_UDP, "2001:db8::1", "fd00:18::11", 30053)
	track(t, unix.AF_INET, unix.IPPROTO_UDP, "192.0.2.1", "172.18.0.11", 53)
	track(t, unix.AF_INET, unix.IPPROTO_UDP, "192.0.2.1", "172.18.0.12", 30053)
	track(t, unix.AF_INET, unix.IPPROTO_TCP, "192.0.2.1", "172.18.0.11", 30053)
	track(t, unix.AF_INET, unix.IPPROTO_UDP, "172.18.0.11", "192.0.2.2", 53) // from port 40000
	if got := tracked(t); got != 6 {
		t.Fatalf("%d connections", got)
	}
	destinations := map[netip.AddrPort]desired.UDPTarget{
		netip.MustParseAddrPort("172.18.0.11:30053"): {}, netip.MustParseAddrPort("[fd00:18::11]:30053"): {},
		netip.MustParseAddrPort("172.18.0.11:40000"): {}, // the source of a reply of the host
	}
	for range 2 {
		if err := hostnet.ForgetUDP(destinations); err != nil {
			t.Fatal(err)
		}
		if got := tracked(t); got != 3 {
			t.Errorf("%d connections are left", got)
		}
	}
}

// ForgetUDP keeps the UDP connections whose translation is one of the present ones.
func TestForgetUDPKeepsPresentTranslations(t *testing.T) {
	at := netip.MustParseAddrPort("172.18.0.11:30054")
	before := tracked(t)
	track(t, unix.AF_INET, unix.IPPROTO_UDP, "192.0.2.1", "172.18.0.11", 30054) // not translated
	track(t, unix.AF_INET, unix.IPPROTO_UDP, "192.0.2.1", "172.18.0.12", 30054)
	kept := map[netip.AddrPort]desired.UDPTarget{at: {To: []netip.AddrPort{netip.MustParseAddrPort("10.96.0.7:53"), at}}}
	moved := map[netip.AddrPort]desired.UDPTarget{at: {To: []netip.AddrPort{netip.MustParseAddrPort("10.96.0.7:53")}}}
	for _, step := range []struct {
		targets map[netip.AddrPort]desired.UDPTarget
		left    int
	}{{nil, 2}, {kept, 2}, {moved, 1}} {
		if err := hostnet.ForgetUDP(step.targets); err != nil {
			t.Fatal(err)
		}
		if got := tracked(t) - before; got != step.left {
			t.Errorf("%d connections are left with %v, want %d", got, step.targets, step.left)
		}
	}
}
