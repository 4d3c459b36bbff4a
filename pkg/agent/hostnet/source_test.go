package hostnet_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/test/poll"
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
		if _, err := hostnet.RouteSources(map[netip.Addr]string{one: "src1", two: "src0"}); err != nil {
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
	if _, err := hostnet.RouteSources(map[netip.Addr]string{two: "src0"}); err != nil {
		t.Fatal(err)
	}
	if left := leftOfSources(t); slices.ContainsFunc(left, func(text string) bool { return strings.Contains(text, "198.51.100.") }) ||
		!slices.ContainsFunc(left, func(text string) bool { return strings.Contains(text, "from 192.0.2.7/32") }) {
		t.Errorf("left are %v", left)
	}
	if _, err := hostnet.RouteSources(nil); err != nil {
		t.Fatal(err)
	}
	if left := leftOfSources(t); len(left) > 0 {
		t.Errorf("afterwards: %v", left)
	}
	if _, err := hostnet.RouteSources(map[netip.Addr]string{one: "missing0"}); err == nil {
		t.Error("a missing link is no error")
	}
}

// Watch reports rules and tables that another program spoils, and forwarding that it switches off, each once. What RouteSources adds is
// no news.
func TestWatchReportsSpoiledSources(t *testing.T) {
	sourceLink(t, "src0", "192.0.2.1/24", "192.0.2.254", 5000)
	six := netip.MustParseAddr("2001:db8::7")
	want := map[netip.Addr]string{netip.MustParseAddr("192.0.2.7"): "src0", six: "src0"}
	for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		setting(t, name, "1")
	}
	var calls atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- hostnet.Watch(ctx, linkName, hostnet.Uplinks{Links: func() []string { return nil }}, func() { calls.Add(1) })
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	expected := int32(1) // at its start
	reported := func(what string) {
		t.Helper()
		poll.Wait{Timeout: patience, Interval: time.Second / 50}.Eventually(t, func() error {
			if got := calls.Load(); got != expected {
				return fmt.Errorf("%s: %d calls, want %d", what, got, expected)
			}
			return nil
		})
		expected++
	}
	reported("the start")
	repair := func(routes, rules bool) {
		t.Helper()
		done, err := hostnet.RouteSources(want)
		if err != nil || done.WroteRoutes != routes || done.WroteRules != rules {
			t.Fatalf("RouteSources did %+v, %v", done, err)
		}
	}
	repair(true, true)
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rules, err := netlink.RuleList(family)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(rules, func(r netlink.Rule) bool { return r.Protocol == 84 })
		if err := netlink.RuleDel(&rules[at]); err != nil {
			t.Fatal(err)
		}
		reported("a rule was deleted")
		repair(false, true)
		for _, kind := range []int{unix.RTN_UNREACHABLE, unix.RTN_UNICAST} {
			routes, err := netlink.RouteListFiltered(family, &netlink.Route{Protocol: 84, Table: unix.RT_TABLE_UNSPEC, Type: kind},
				netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(routes, func(r netlink.Route) bool { return r.Table > 255 })
			if at < 0 {
				continue // no router for IPv6
			}
			if err := netlink.RouteDel(&routes[at]); err != nil {
				t.Fatal(err)
			}
			reported(fmt.Sprintf("a route of type %d was deleted", kind))
			repair(true, false)
		}
	}
	setting(t, "ipv4/ip_forward", "0")
	reported("IPv4 is not forwarded")
	setting(t, "ipv4/ip_forward", "1")
	setting(t, "ipv6/conf/all/forwarding", "0")
	reported("IPv6 is not forwarded")
	setting(t, "ipv6/conf/all/forwarding", "1")
	if _, err := hostnet.RouteSources(nil); err != nil {
		t.Fatal(err)
	}
}

func setting(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}
