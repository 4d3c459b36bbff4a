package hostnet_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/hostnet"
)

// sourceLink makes a link with an address and, by its neighbour, a default route with a metric.
func sourceLink(t *testing.T, name, address, router string, metric int) {
	t.Helper()
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "p"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(netlink.LinkAdd(link))
	t.Cleanup(func() { _ = netlink.LinkDel(link) })
	must(netlink.LinkSetUp(link))
	peer, err := netlink.LinkByName(name + "p")
	must(err)
	must(netlink.LinkSetUp(peer))
	parsed, err := netlink.ParseAddr(address)
	must(err)
	parsed.Flags = unix.IFA_F_NODAD
	must(netlink.AddrAdd(link, parsed))
	must(netlink.RouteAdd(&netlink.Route{LinkIndex: link.Index, Gw: net.ParseIP(router), Priority: metric}))
}

// leftOfSources lists the rules and routes of tables that RouteSources has made.
func leftOfSources(t *testing.T) (left []string) {
	t.Helper()
	rules, err := netlink.RuleList(netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if r.Protocol == 84 {
			left = append(left, r.String())
		}
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: 84, Table: unix.RT_TABLE_UNSPEC},
		netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		if r.Table > 255 {
			left = append(left, r.String())
		}
	}
	return left
}

// Packets of each address leave by its link, whatever the main table prefers, and a repetition changes nothing.
func TestRouteSources(t *testing.T) {
	sourceLink(t, "src0", "192.0.2.1/24", "192.0.2.254", 5000)
	sourceLink(t, "src1", "198.51.100.1/24", "198.51.100.254", 5001)
	if left := leftOfSources(t); len(left) > 0 {
		t.Fatalf("before: %v", left)
	}
	one, two := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("192.0.2.7")
	for range 2 {
		if err := hostnet.RouteSources(map[netip.Addr]string{one: "src1", two: "src0"}); err != nil {
			t.Fatal(err)
		}
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: 84, Table: unix.RT_TABLE_UNSPEC},
		netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, r := range routes {
		if r.Table > 255 {
			kinds = append(kinds, fmt.Sprint(r.Dst, " ", r.Gw, " ", r.Type))
		}
	}
	slices.Sort(kinds)
	want := []string{"0.0.0.0/0 192.0.2.254 1", "0.0.0.0/0 198.51.100.254 1", "0.0.0.0/0 <nil> 7", "0.0.0.0/0 <nil> 7",
		"192.0.2.0/24 <nil> 1", "198.51.100.0/24 <nil> 1"}
	if !slices.Equal(kinds, want) {
		t.Errorf("tables have %q, want %q", kinds, want)
	}
	rules, err := netlink.RuleList(netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]int{}
	for _, r := range rules {
		if r.Protocol == 84 {
			tables[r.Src.String()] = r.Table
		}
	}
	if len(tables) != 2 || tables["192.0.2.7/32"] == tables["198.51.100.7/32"] {
		t.Errorf("rules choose %v", tables)
	}
	if err := hostnet.RouteSources(map[netip.Addr]string{two: "src0"}); err != nil {
		t.Fatal(err)
	}
	if left := leftOfSources(t); slices.ContainsFunc(left, func(text string) bool { return strings.Contains(text, "198.51.100.") }) ||
		!slices.ContainsFunc(left, func(text string) bool { return strings.Contains(text, "from 192.0.2.7/32") }) {
		t.Errorf("left are %v", left)
	}
	if err := hostnet.RouteSources(nil); err != nil {
		t.Fatal(err)
	}
	if left := leftOfSources(t); len(left) > 0 {
		t.Errorf("afterwards: %v", left)
	}
	if err := hostnet.RouteSources(map[netip.Addr]string{one: "missing0"}); err == nil {
		t.Error("a missing link is no error")
	}
}
