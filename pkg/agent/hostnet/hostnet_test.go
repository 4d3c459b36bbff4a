package hostnet_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/test/poll"
)

const (
	linkName   = "mp0"
	uplinkName = "up0"
	patience   = time.Minute
)

// newLink makes the link that a test changes, with a peer that gives it a carrier.
func newLink(t *testing.T) netlink.Link {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = linkName
	pair := netlink.NewVeth(attrs)
	pair.PeerName = "peer"
	if err := netlink.LinkAdd(pair); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(pair) })
	peer, err := netlink.LinkByName("peer")
	if err == nil {
		err = netlink.LinkSetUp(peer)
	}
	if err != nil {
		t.Fatal(err)
	}
	link, err := netlink.LinkByName(linkName)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func dualStack() desired.Host {
	return desired.Host{
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.1.2/24"), netip.MustParsePrefix("fd00:10:244:1::2/64")},
		Routes: []desired.Route{
			{Destination: netip.MustParsePrefix("10.244.0.0/16"), Gateway: netip.MustParseAddr("10.244.1.1")},
			{Destination: netip.MustParsePrefix("fd00:10:244::/48"), Gateway: netip.MustParseAddr("fd00:10:244:1::1")},
			{Destination: netip.MustParsePrefix("10.96.0.0/16"), Gateway: netip.MustParseAddr("10.244.1.1")},
			{Destination: netip.MustParsePrefix("fd00:10:96::/112"), Gateway: netip.MustParseAddr("fd00:10:244:1::1")},
		},
	}
}

func apply(t *testing.T, want desired.Host) {
	t.Helper()
	if _, err := hostnet.Apply(linkName, want); err != nil {
		t.Fatal(err)
	}
}

// has lists the link's addresses, except link-local ones, and its routes that have a gateway.
func has(t *testing.T, link netlink.Link) (found []string) {
	t.Helper()
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if !a.IP.IsLinkLocalUnicast() {
			found = append(found, a.IPNet.String())
		}
	}
	routes, err := netlink.RouteList(link, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		if r.Gw != nil {
			found = append(found, r.Dst.String()+" via "+r.Gw.String())
		}
	}
	slices.Sort(found)
	return found
}

func wantHas(t *testing.T, link netlink.Link, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, has(t, link)); diff != "" {
		t.Errorf("the link has (-want +got):\n%s", diff)
	}
}

var dualStackText = []string{
	"10.244.1.2/24", "fd00:10:244:1::2/64",
	"10.244.0.0/16 via 10.244.1.1", "fd00:10:244::/48 via fd00:10:244:1::1",
	"10.96.0.0/16 via 10.244.1.1", "fd00:10:96::/112 via fd00:10:244:1::1",
}

func TestApplyGivesAddressesAndRoutes(t *testing.T) {
	link := newLink(t)
	apply(t, dualStack())
	wantHas(t, link, dualStackText...)
	up, err := netlink.LinkByName(linkName)
	if err != nil || up.Attrs().Flags&net.FlagUp == 0 {
		t.Errorf("the link is not up: %v", err)
	}
	addresses, _ := netlink.AddrList(link, netlink.FAMILY_V6)
	for _, a := range addresses {
		if !a.IP.IsLinkLocalUnicast() && a.Flags&unix.IFA_F_TENTATIVE != 0 {
			t.Errorf("%s is tentative: it cannot be used yet", a.IPNet)
		}
	}
}

// A router advertisement from a pod must not give the host addresses or routes.
func TestApplyIgnoresRouters(t *testing.T) {
	newLink(t)
	path := filepath.Join("/proc/sys/net/ipv6/conf", linkName, "accept_ra")
	for _, before := range []string{"1", "2"} {
		if err := os.WriteFile(path, []byte(before), 0); err != nil {
			t.Fatal(err)
		}
		apply(t, dualStack())
		if got, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(got)) != "0" {
			t.Errorf("accept_ra is %s after %s, %v", got, before, err)
		}
	}
}

// Apply restores a link-local address that someone removed. Without it, the kernel sends no neighbour solicitations for
// packets whose source address belongs to another link.
func TestALinkLocalAddressComesBack(t *testing.T) {
	link := newLink(t)
	apply(t, dualStack())
	settle(t, link)
	var lost netip.Prefix
	addresses, err := netlink.AddrList(link, netlink.FAMILY_V6)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if a.IP.IsLinkLocalUnicast() {
			ip, _ := netip.AddrFromSlice(a.IP)
			lost = netip.PrefixFrom(ip, 64)
			if err := netlink.AddrDel(link, &a); err != nil {
				t.Fatal(err)
			}
		}
	}
	apply(t, dualStack())
	if addresses, err = netlink.AddrList(link, netlink.FAMILY_V6); err != nil {
		t.Fatal(err)
	}
	if !lost.IsValid() || !slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return a.IPNet.String() == lost.String() }) {
		t.Errorf("%s was lost, and there are %v", lost, addresses)
	}
	wantHas(t, link, dualStackText...)
}

// The test subscribes to the kernel's change notifications and expects none from Apply.
func TestApplyDoesNotTouchCorrectState(t *testing.T) {
	link := newLink(t)
	apply(t, dualStack())
	settle(t, link)
	news, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer news.Close()
	for range 3 {
		apply(t, dualStack())
	}
	// A change by the test marks the end: every message before it comes from Apply.
	if err := netlink.LinkSetAlias(link, "end"); err != nil {
		t.Fatal(err)
	}
	for {
		messages, _, err := news.Receive()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if m.Header.Type == unix.RTM_NEWLINK && strings.Contains(string(m.Data), "end\x00") {
				return
			}
			t.Errorf("Apply changed something: message of type %d", m.Header.Type)
		}
	}
}

// settle waits until the kernel reports the link-local address that it gives the link.
func settle(t *testing.T, link netlink.Link) {
	t.Helper()
	done := make(chan struct{})
	defer close(done)
	updates := make(chan netlink.AddrUpdate, 64)
	if err := netlink.AddrSubscribeWithOptions(updates, done, netlink.AddrSubscribeOptions{ListExisting: true}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.After(patience); ; {
		select {
		case u := <-updates:
			if u.LinkIndex == link.Attrs().Index && u.LinkAddress.IP.IsLinkLocalUnicast() && u.Flags&unix.IFA_F_TENTATIVE == 0 {
				return
			}
		case <-deadline:
			t.Fatal("the link did not get its link-local address")
		}
	}
}

func TestApplyRemovesWhatIsNotWanted(t *testing.T) {
	link := newLink(t)
	apply(t, dualStack())
	less := desired.Host{Addresses: dualStack().Addresses[:1], Routes: dualStack().Routes[:1]}
	apply(t, less)
	wantHas(t, link, "10.244.1.2/24", "10.244.0.0/16 via 10.244.1.1")
	apply(t, desired.Host{})
	wantHas(t, link)
}

// When the kernel removes the first IPv4 address of a subnet, it also removes the later ones. Apply must restore them.
func TestApplyRemovesTheFirstAddressOfASubnet(t *testing.T) {
	link := newLink(t)
	stale := desired.Host{Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.1.9/24")}}
	apply(t, stale)
	both := dualStack()
	both.Addresses = append(both.Addresses, stale.Addresses...)
	apply(t, both)
	apply(t, dualStack())
	wantHas(t, link, dualStackText...)
}

func TestApplyChangesAGateway(t *testing.T) {
	link := newLink(t)
	apply(t, dualStack())
	moved := dualStack()
	moved.Routes[0].Gateway = netip.MustParseAddr("10.244.1.254")
	apply(t, moved)
	const before, after = "10.244.0.0/16 via 10.244.1.1", "10.244.0.0/16 via 10.244.1.254"
	if got := has(t, link); !slices.Contains(got, after) || slices.Contains(got, before) {
		t.Errorf("the link has %v", got)
	}
}

// Weft owns all addresses of the link, but only its own routes.
func TestForeignRoutesStay(t *testing.T) {
	link := newLink(t)
	apply(t, dualStack())
	foreign := &netlink.Route{
		LinkIndex: link.Attrs().Index, Dst: mustIPNet("192.0.2.0/24"), Gw: net.ParseIP("10.244.1.77"), Protocol: unix.RTPROT_STATIC,
	}
	if err := netlink.RouteAdd(foreign); err != nil {
		t.Fatal(err)
	}
	apply(t, dualStack())
	wantHas(t, link, append([]string{"192.0.2.0/24 via 10.244.1.77"}, dualStackText...)...)
}

// The host might send from a foreign address. OVN has no such address, and the replies would be lost.
func TestForeignAddressesAreRemoved(t *testing.T) {
	link := newLink(t)
	apply(t, dualStack())
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: mustIPNet("192.0.2.1/24")}); err != nil {
		t.Fatal(err)
	}
	apply(t, dualStack())
	wantHas(t, link, dualStackText...)
}

func TestAbsentLinkIsNamed(t *testing.T) {
	_, err := hostnet.Apply("absent0", dualStack())
	if err == nil || !strings.Contains(err.Error(), "absent0") {
		t.Errorf("error is %v", err)
	}
}

func TestUnreachableGatewayIsNamed(t *testing.T) {
	newLink(t)
	want := dualStack()
	want.Routes[0].Gateway = netip.MustParseAddr("203.0.113.1")
	_, err := hostnet.Apply(linkName, want)
	if err == nil || !strings.Contains(err.Error(), "add route 10.244.0.0/16 via 203.0.113.1") {
		t.Errorf("error is %v", err)
	}
}

func TestAddressesIn(t *testing.T) {
	link := newLink(t)
	if err := netlink.LinkSetMTU(link, 1450); err != nil {
		t.Fatal(err)
	}
	apply(t, dualStack())
	networks := []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::2/128")}
	var want []desired.LinkAddress
	for _, address := range []string{"10.244.1.2", "fd00:10:244:1::2"} {
		want = append(want, desired.LinkAddress{Address: netip.MustParseAddr(address), Link: linkName, MTU: 1450})
	}
	if got, err := hostnet.AddressesIn(networks); err != nil || !slices.Equal(got, want) {
		t.Errorf("addresses %v (%v), want %v", got, err, want)
	}
	if got, err := hostnet.AddressesIn([]netip.Prefix{netip.MustParsePrefix("10.244.1.3/32")}); err != nil || len(got) > 0 {
		t.Errorf("addresses %v (%v), want none", got, err)
	}
}

// watching runs Watch and returns a channel that signals its calls of changed.
func watching(t *testing.T) <-chan struct{} {
	t.Helper()
	news := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- hostnet.Watch(ctx, linkName, hostnet.Uplinks{Links: func() []string { return []string{uplinkName} }}, func() {
			select {
			case news <- struct{}{}:
			default:
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return news
}

// until waits for calls of changed until the condition holds.
func until(t *testing.T, news <-chan struct{}, what string, good func() bool) {
	t.Helper()
	wait := poll.Wait{Timeout: patience, Changes: func() <-chan struct{} { return news }}
	wait.Eventually(t, poll.True(what, good))
}

// The test applies at each call of changed. What someone removes by hand must come back, also on a link that existed
// before the watch began.
func TestWatchReportsWhatOthersRemove(t *testing.T) {
	link := newLink(t)
	apply(t, dualStack())
	settle(t, link)
	news := watching(t)
	<-news // the call at the start
	want := slices.Sorted(slices.Values(dualStackText))
	healed := func() bool {
		apply(t, dualStack())
		return slices.Equal(has(t, link), want)
	}
	for what, spoil := range map[string]func() error{
		"a route was removed": func() error {
			return netlink.RouteDel(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: mustIPNet("10.96.0.0/16")})
		},
		"an address was removed": func() error { return netlink.AddrDel(link, &netlink.Addr{IPNet: mustIPNet("10.244.1.2/24")}) },
		"the link was set down":  func() error { return netlink.LinkSetDown(link) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-news:
		case <-time.After(patience):
			t.Fatalf("Watch did not report: %s", what)
		}
		until(t, news, what, healed)
	}
}

// `ip route flush dev` also removes the kernel's connected routes. Without them no gateway can be reached.
func TestFlushedRoutesComeBack(t *testing.T) {
	link := newLink(t)
	apply(t, dualStack())
	routes, err := netlink.RouteList(link, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	for i := range routes {
		if err := netlink.RouteDel(&routes[i]); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, dualStack())
	wantHas(t, link, dualStackText...)
	settle(t, link)
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: mustIPNet("192.0.2.0/24"), Gw: net.ParseIP("10.244.1.7")}
	if err := netlink.RouteAdd(route); err != nil {
		t.Errorf("the subnet is not connected: %v", err)
	}
}

func TestWatchReportsARecreatedLink(t *testing.T) {
	link := newLink(t)
	news := watching(t)
	<-news
	if err := netlink.LinkDel(link); err != nil {
		t.Fatal(err)
	}
	until(t, news, "the link was removed", func() bool { _, err := netlink.LinkByName(linkName); return err != nil })
	link = newLink(t)
	until(t, news, "the link was made", func() bool { _, err := hostnet.Apply(linkName, dualStack()); return err == nil })
	until(t, news, "its addresses", func() bool { return len(has(t, link)) == len(dualStackText) })
}

// The pods' MTU depends on the uplink's, so Watch must report its changes.
func TestWatchReportsTheUplinksMTU(t *testing.T) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = uplinkName
	uplink := netlink.NewVeth(attrs)
	uplink.PeerName = "up0-peer"
	if err := netlink.LinkAdd(uplink); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(uplink) })
	news := watching(t)
	<-news
	if err := netlink.LinkSetMTU(uplink, 1400); err != nil {
		t.Fatal(err)
	}
	select {
	case <-news:
	case <-time.After(patience):
		t.Error("Watch did not report the change of the uplink's MTU")
	}
}

func TestWatchReportsAddressesOfAnyLink(t *testing.T) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "other0"
	other := netlink.NewVeth(attrs)
	other.PeerName = "other0-peer"
	if err := netlink.LinkAdd(other); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(other) })
	news := watching(t)
	<-news
	for _, change := range []func(netlink.Link, *netlink.Addr) error{netlink.AddrAdd, netlink.AddrDel} {
		if err := change(other, &netlink.Addr{IPNet: mustIPNet("198.18.1.11/24")}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-news:
		case <-time.After(patience):
			t.Fatal("Watch did not report an address of another link")
		}
	}
}

func mustIPNet(s string) *net.IPNet {
	ip, network, err := net.ParseCIDR(s)
	if err != nil {
		panic(err)
	}
	network.IP = ip
	if ones, bits := network.Mask.Size(); ones < bits && ip.Equal(ip.Mask(network.Mask)) {
		network.IP = ip.Mask(network.Mask)
	}
	return network
}

// Forward leaves a setting unchanged that someone else has chosen.
func TestForward(t *testing.T) {
	link := newLink(t)
	settings := map[string][2]string{ // before, after
		"ipv4/ip_forward": {"0", "1"}, "ipv6/conf/all/forwarding": {"0", "1"}, "ipv6/conf/" + link.Attrs().Name + "/accept_ra": {"1", "2"},
	}
	for name, value := range settings {
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(value[0]), 0); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := hostnet.Forward(link.Attrs().Name, hostnet.Families{IPv4: true, IPv6: true}); err != nil {
			t.Fatal(err)
		}
		for name, value := range settings {
			if got, err := os.ReadFile("/proc/sys/net/" + name); err != nil || strings.TrimSpace(string(got)) != value[1] {
				t.Errorf("%s is %s, %v", name, got, err)
			}
		}
	}
	ra := "/proc/sys/net/ipv6/conf/" + link.Attrs().Name + "/accept_ra"
	if err := os.WriteFile(ra, []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	if wrote, err := hostnet.Forward(link.Attrs().Name, hostnet.Families{IPv6: true}); wrote || err != nil {
		t.Fatal(wrote, err)
	}
	if got, err := os.ReadFile(ra); err != nil || string(got) != "0\n" {
		t.Errorf("accept_ra is %s, %v", got, err)
	}
}

func TestOutsideOf(t *testing.T) {
	link := newLink(t)
	if _, err := hostnet.OutsideOf(""); !errors.Is(err, hostnet.ErrNoDefaultRoute) {
		t.Errorf("without a default route: %v", err)
	}
	apply(t, dualStack())
	settle(t, link)
	index := link.Attrs().Index
	for metric, gateway := range map[int]string{200: "10.244.1.9", 100: "10.244.1.8"} {
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: index, Gw: net.ParseIP(gateway), Priority: metric}); err != nil {
			t.Fatal(err)
		}
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: index, Gw: net.ParseIP("fd00:10:244:1::8"), Table: 100}); err != nil {
		t.Fatal(err)
	}
	got, err := hostnet.OutsideOf("")
	if err != nil || got.Name != linkName || got.MAC != link.Attrs().HardwareAddr.String() || len(got.Addresses) != 2 ||
		fmt.Sprint(got.NextHops) != "[10.244.1.8 10.244.1.9]" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Apply restores the MAC and the MTU, and Watch reports a link that is renamed.
func TestALinksSettingsComeBack(t *testing.T) {
	link := newLink(t)
	want := dualStack()
	want.MAC, want.MTU = "0a:58:0a:f4:01:02", 1400
	apply(t, want)
	settle(t, link)
	news := watching(t)
	<-news
	healed := func() bool {
		apply(t, want)
		got, err := netlink.LinkByName(linkName)
		return err == nil && got.Attrs().MTU == want.MTU && got.Attrs().HardwareAddr.String() == want.MAC && got.Attrs().Flags&net.FlagUp != 0
	}
	for what, spoil := range map[string]func() error{
		"the MTU":   func() error { return netlink.LinkSetMTU(link, 1300) },
		"the MAC":   func() error { return netlink.LinkSetHardwareAddr(link, net.HardwareAddr{2, 0, 0, 0, 0, 9}) },
		"its state": func() error { return netlink.LinkSetDown(link) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		until(t, news, what, healed)
	}
	if wrote, err := hostnet.Apply(linkName, want); wrote || err != nil {
		t.Errorf("a repetition writes: %v, %v", wrote, err)
	}
	settle(t, link)
	for len(news) > 0 {
		<-news
	}
	if err := errors.Join(netlink.LinkSetDown(link), netlink.LinkSetName(link, "other0")); err != nil {
		t.Fatal(err)
	}
	until(t, news, "the link is renamed", func() bool { _, err := netlink.LinkByName(linkName); return err != nil })
	if err := netlink.LinkSetName(link, linkName); err != nil {
		t.Fatal(err)
	}
	until(t, news, "it has its name again", healed)
}
