package hostnet_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/weft-network/weft/pkg/agent/hostnet"
)

// The host answers for the present addresses, repeatedly and after a former set, and leaves other entries alone.
func TestAnswer(t *testing.T) {
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "answers0"}, PeerName: "answers1"}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(link) })
	one, two, six := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8"), netip.MustParseAddr("2001:db8::7")
	foreign := netip.MustParseAddr("192.0.2.99")
	expect := func(want ...netip.Addr) {
		t.Helper()
		var have []netip.Addr
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			list, err := netlink.NeighProxyList(link.Index, family)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range list {
				if a, ok := netip.AddrFromSlice(n.IP); ok && n.LinkIndex == link.Index {
					have = append(have, a.Unmap())
				}
			}
		}
		if slices.SortFunc(have, netip.Addr.Compare); !slices.Equal(have, want) {
			t.Errorf("the host answers for %v, want %v", have, want)
		}
	}
	if err := hostnet.Answer("answers0", []netip.Addr{foreign}, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := hostnet.Answer("answers0", []netip.Addr{one, six}, nil); err != nil {
			t.Fatal(err)
		}
	}
	expect(one, foreign, six)
	if err := hostnet.Answer("answers0", []netip.Addr{two}, []netip.Addr{one, two, six}); err != nil {
		t.Fatal(err)
	}
	expect(two, foreign)
	for range 2 {
		if err := hostnet.Answer("answers0", nil, []netip.Addr{two}); err != nil {
			t.Fatal(err)
		}
	}
	expect(foreign)
	if err := hostnet.Answer("missing0", nil, []netip.Addr{two}); err != nil {
		t.Errorf("a missing link: %v", err)
	}
	if err := hostnet.Answer("missing0", []netip.Addr{two}, nil); err == nil {
		t.Error("a missing link cannot answer")
	}
}
