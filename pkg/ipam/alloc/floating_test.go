package alloc_test

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ipam/alloc"
)

func addrs(texts ...string) (found []netip.Addr) {
	for _, text := range texts {
		found = append(found, netip.MustParseAddr(text))
	}
	return found
}

func floatingNode() *alloc.Allocator {
	a := alloc.New(func() time.Time { return time.Unix(0, 0) })
	a.SetNode("n1", []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00:10:244::/64")}, nil)
	return a
}

// A floating address replaces the node's address of its family. The node gives the slot, and the address of the other
// family. The MAC is made from the first IPv4 address, so that it is the same on every node.
func TestAFloatingAddressTakesTheNodesPlace(t *testing.T) {
	for _, test := range []struct{ floating, want, mac string }{
		{"10.244.200.5", "[10.244.200.5/32 fd00:10:244::3/64]", "0a:58:0a:f4:c8:05"},
		{"fd00:10:244:c8::5", "[10.244.0.3/24 fd00:10:244:c8::5/128]", "0a:58:0a:f4:00:03"},
		{"fd00:10:244:c8::5 10.244.200.7 10.244.200.6", "[10.244.200.7/32 10.244.200.6/32 fd00:10:244:c8::5/128]", "0a:58:0a:f4:c8:07"},
	} {
		a := floatingNode()
		floating := addrs(strings.Fields(test.floating)...)
		got, err := a.Allocate("n1", "pod", alloc.Request{Floating: floating})
		if err != nil {
			t.Fatal(err)
		}
		if text := prefixes(got.Addresses); text != test.want || got.MAC.String() != test.mac || got.Slot != alloc.FirstSlot ||
			!slices.Equal(got.Floating, floating) {
			t.Errorf("floating %s: %s, MAC %s, slot %d, floating %v", test.floating, text, got.MAC, got.Slot, got.Floating)
		}
		if dropped, _ := a.SetNode("n1", []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"),
			netip.MustParsePrefix("fd00:10:244::/64"), netip.MustParsePrefix("10.244.9.0/24")}, nil); len(dropped) > 0 {
			t.Errorf("floating %s: lost its assignment with a new subnet: %v", test.floating, dropped)
		}
		again, err := a.Allocate("n1", "pod", alloc.Request{Floating: floating})
		if err != nil || prefixes(again.Addresses) != test.want {
			t.Errorf("floating %s: the second time %v, %v", test.floating, again, err)
		}
		a.Complete()
		if used, _ := a.Used(netip.MustParsePrefix("10.244.200.0/24")); used != 0 {
			t.Errorf("floating %s: %d addresses of the pool are counted as the node's", test.floating, used)
		}
		if node, ok := a.Release("pod"); !ok || node != "n1" {
			t.Errorf("floating %s: released from %q, %t", test.floating, node, ok)
		}
		next, err := a.Allocate("n1", "next", alloc.Request{})
		if err != nil || next.Slot != alloc.FirstSlot+1 || len(next.Floating) > 0 {
			t.Errorf("after floating %s: %v, %v", test.floating, next, err)
		}
	}
}

func prefixes(all []netip.Prefix) string {
	texts := make([]string, 0, len(all))
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return "[" + strings.Join(texts, " ") + "]"
}

// An operator that restarts finds the floating addresses in the port, and the pod keeps everything.
func TestAFloatingAddressIsClaimed(t *testing.T) {
	for _, floating := range []string{"10.244.200.5", "fd00:10:244:c8::5", "10.244.200.5 fd00:10:244:c8::5"} {
		before := floatingNode()
		got, err := before.Allocate("n1", "pod", alloc.Request{Floating: addrs(strings.Fields(floating)...)})
		if err != nil {
			t.Fatal(err)
		}
		var stored []netip.Addr
		for _, p := range got.Addresses {
			stored = append(stored, p.Addr())
		}
		after := floatingNode()
		want := alloc.Assignment{Addresses: after.InSubnets("n1", stored), Floating: got.Floating, Slot: got.Slot}
		claimed, err := after.Claim("n1", "pod", want)
		if err != nil || prefixes(claimed.Addresses) != prefixes(got.Addresses) || claimed.MAC.String() != got.MAC.String() ||
			claimed.Slot != got.Slot {
			t.Errorf("floating %s: claimed %v, %v, had %v", floating, claimed, err, got)
		}
		later := alloc.New(time.Now)
		later.ClaimLater("n1", "pod", stored, alloc.Assignment{Floating: got.Floating, Slot: got.Slot})
		later.SetNode("n1", []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00:10:244::/64")}, nil)
		if _, claimed, ok := later.Get("pod"); !ok || prefixes(claimed.Addresses) != prefixes(got.Addresses) {
			t.Errorf("floating %s: claimed later %v, %t, had %v", floating, claimed, ok, got)
		}
		other, err := after.Allocate("n1", "other", alloc.Request{})
		if err != nil || other.Slot == got.Slot || slices.ContainsFunc(other.Addresses, func(p netip.Prefix) bool {
			return slices.Contains(got.Addresses, p)
		}) {
			t.Errorf("floating %s: the next pod has %v, %v", floating, other, err)
		}
	}
}

func TestFloatingAddressesThatCannotBe(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	for want, request := range map[string]alloc.Request{
		"10.244.0.9 is not available: it is in a subnet of the node, 10.244.0.0/24, fd00:10:244::/64": {
			Floating: addrs("10.244.0.9")},
		"10.244.200.5 is not available: another of its family is requested too": {
			Floating: addrs("10.244.200.5"), Addresses: addrs("10.244.0.9")},
		"10.244.200.5 is not available: it is listed twice": {
			Floating: addrs("10.244.200.5", "10.244.200.5")},
		"MAC 02:00:00:00:00:01 is not available: a floating IPv4 address determines the MAC": {
			Floating: addrs("10.244.200.5"), MAC: mac},
	} {
		a := floatingNode()
		if got, err := a.Allocate("n1", "pod", request); !errors.Is(err, alloc.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %q", got, err, want)
		}
		if got, err := a.Allocate("n1", "pod", alloc.Request{}); err != nil || prefixes(got.Addresses) != "[10.244.0.3/24 fd00:10:244::3/64]" {
			t.Errorf("after %q: %v, %v", want, got, err)
		}
	}
	a := alloc.New(time.Now)
	a.SetNode("n1", []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}, nil)
	if got, err := a.Allocate("n1", "pod", alloc.Request{Floating: addrs("fd00::5")}); !errors.Is(err, alloc.ErrUnavailable) {
		t.Errorf("of a family that the node does not have: %v, %v", got, err)
	}
	if _, err := a.Allocate("n1", "pod", alloc.Request{MAC: mac, Floating: nil}); err != nil {
		t.Error(err)
	}
	b := floatingNode()
	if got, err := b.Claim("n1", "pod", alloc.Assignment{Floating: addrs("10.244.200.5"),
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.0.3/24")}, Slot: 16}); err == nil {
		t.Errorf("a claim with two IPv4 addresses of which one is floating: %v", got)
	}
}

// A floating address has one port at a time, on any node: the next owner gets it when the former one's port is gone,
// also if that port is on a node without subnets.
func TestAFloatingAddressHasOneHolder(t *testing.T) {
	a := floatingNode()
	a.SetNode("n2", []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")}, nil)
	wants := alloc.Request{Floating: addrs("10.244.200.5")}
	refused := func(owner alloc.Owner, holder string) {
		t.Helper()
		want := "10.244.200.5 is not available: the port of " + holder + " still has it"
		if _, err := a.Allocate("n2", owner, wants); !errors.Is(err, alloc.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	given := func(node string, owner alloc.Owner) {
		t.Helper()
		if _, err := a.Allocate(node, owner, wants); err != nil {
			t.Error(err)
		}
	}
	given("n1", "first")
	refused("second", "first")
	a.Release("first")
	given("n2", "second")
	a.Release("second")

	a.Hold("gone", addrs("10.244.200.5", "fd00:10:244:f::5"))
	a.Hold("late", addrs("10.244.200.5")) // of two ports, the first holds it
	refused("third", "gone")
	if got := a.Held("gone"); !slices.Equal(got, addrs("10.244.200.5", "fd00:10:244:f::5")) || len(a.Held("late")) > 0 {
		t.Errorf("held %v and %v", got, a.Held("late"))
	}
	a.Release("late")
	refused("third", "gone")
	a.Release("gone")
	given("n1", "third")
}

// An address that the gateway router translates is held as a pod's own floating addresses are, until its port has it no more.
func TestTranslationsAreHeld(t *testing.T) {
	a := floatingNode()
	if others := a.Hold("first", addrs("192.0.2.1", "192.0.2.2")); len(others) > 0 {
		t.Errorf("others hold %v", others)
	}
	clone := a.Clone()
	if others := a.Hold("second", addrs("192.0.2.2", "192.0.2.3")); !slices.Equal(others, addrs("192.0.2.2")) {
		t.Errorf("others hold %v", others)
	}
	if ended := a.HoldOnly("first", addrs("192.0.2.1", "192.0.2.9")); !slices.Equal(ended, addrs("192.0.2.2")) {
		t.Errorf("the hold of %v ended", ended)
	}
	if others := a.Hold("second", addrs("192.0.2.2")); len(others) > 0 {
		t.Errorf("others hold %v", others)
	}
	if ended := a.HoldOnly("first", nil); !slices.Equal(ended, addrs("192.0.2.1")) || len(a.HoldOnly("first", nil)) > 0 {
		t.Errorf("the hold of %v ended", ended)
	}
	if held := clone.Held("first"); !slices.Equal(held, addrs("192.0.2.1", "192.0.2.2")) {
		t.Errorf("in the clone, the first holds %v", held)
	}
}
