package alloc

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/weft-network/weft/pkg/ipam"
)

func text(got Assignment) string { return fmt.Sprint(got.Addresses) }

// A family that a node gets changes no assignment. New owners have both families, and older owners are listed until they
// are gone. A restart restores them as they are.
func TestOwnersOlderThanAFamilyKeepTheirAddress(t *testing.T) {
	a, _ := newNode("10.0.0.0/24")
	before, err := a.Allocate("n1", "a/old/1", Request{})
	if err != nil {
		t.Fatal(err)
	}
	both := prefixes("10.0.0.0/24", "fd00::/64")
	dropped, outdated := a.SetNode("n1", both, nil)
	if len(dropped) > 0 || !slices.Equal(outdated, []Owner{"a/old/1"}) {
		t.Errorf("dropped %v, outdated %v", dropped, outdated)
	}
	if _, again := a.SetNode("n1", both, nil); len(again) > 0 {
		t.Errorf("outdated again: %v", again)
	}
	if got, err := a.Allocate("n1", "a/old/1", Request{}); err != nil || text(got) != text(before) {
		t.Errorf("a/old has %v (%v), had %v", got, err, before)
	}
	if got, err := a.Allocate("n1", "a/new/2", Request{}); err != nil || len(got.Addresses) != 2 {
		t.Errorf("a/new has %v (%v)", got, err)
	}
	total, first := a.Outdated(1)
	if total != 1 || len(first) != 1 || first[0] != (Outdated{"a/old/1", "it has no IPv6 address"}) {
		t.Errorf("outdated: %d, %v", total, first)
	}
	next, _ := newNode("10.0.0.0/24", "fd00::/64")
	if got, err := next.Claim("n1", "a/old/1", Assignment{Addresses: before.Addresses, Slot: before.Slot}); err != nil ||
		text(got) != text(before) || got.MAC.String() != before.MAC.String() {
		t.Errorf("restored %v (%v), had %v", got, err, before)
	}
	if total, _ := next.Outdated(1); total != 1 {
		t.Errorf("%d outdated after a restart", total)
	}
	if a.Release("a/old/1"); a.WhyOutdated("a/old/1") != "" {
		t.Error("outdated although it is gone")
	}
	if total, _ := a.Outdated(1); total != 0 {
		t.Errorf("%d outdated", total)
	}
}

// A leaving subnet keeps its owners and gives no address, not even on request, and is idle when the last owner is gone.
func TestALeavingSubnetGivesNoAddress(t *testing.T) {
	a, _ := newNode("10.0.0.0/24", "fd00::/64")
	a.Complete()
	if _, err := a.Allocate("n1", "old", Request{}); err != nil {
		t.Fatal(err)
	}
	all, leaving := prefixes("10.0.0.0/24", "fd00::/64", "10.0.1.0/24"), prefixes("10.0.0.0/24")
	if dropped, outdated := a.SetNode("n1", all, leaving); len(dropped) > 0 || !slices.Equal(outdated, []Owner{"old"}) {
		t.Errorf("dropped %v, outdated %v", dropped, outdated)
	}
	if got, err := a.Allocate("n1", "new", Request{}); err != nil || !prefixes("10.0.1.0/24")[0].Contains(got.Addresses[1].Addr()) &&
		!prefixes("10.0.1.0/24")[0].Contains(got.Addresses[0].Addr()) {
		t.Errorf("new has %v (%v)", got, err)
	}
	request := Request{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.9")}}
	if _, err := a.Allocate("n1", "wishes", request); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a requested address of the leaving subnet: %v", err)
	}
	if idle := a.Idle("n1"); len(idle) > 0 {
		t.Errorf("idle with an owner: %v", idle)
	}
	_, first := a.Outdated(9)
	if len(first) != 1 || first[0].Why != "its address 10.0.0.3 is in a network that was removed from clusterNetwork" {
		t.Errorf("outdated: %v", first)
	}
	a.Release("old")
	if idle := a.Idle("n1"); !slices.Equal(idle, leaving) || !slices.Equal(a.IdleNodes(), []string{"n1"}) {
		t.Errorf("idle: %v, %v", idle, a.IdleNodes())
	}
	if dropped, _ := a.SetNode("n1", prefixes("fd00::/64", "10.0.1.0/24"), nil); len(dropped) > 0 {
		t.Errorf("dropped %v", dropped)
	}
}

// Owners that lost one of two families with a leaving subnet are as new owners are.
func TestAFamilyLeaves(t *testing.T) {
	a, _ := newNode("10.0.0.0/24", "fd00::/64")
	a.Complete()
	if _, err := a.Allocate("n1", "old", Request{}); err != nil {
		t.Fatal(err)
	}
	a.SetNode("n1", prefixes("10.0.0.0/24", "fd00::/64"), prefixes("fd00::/64"))
	if got, err := a.Allocate("n1", "new", Request{}); err != nil || len(got.Addresses) != 1 || !got.Addresses[0].Addr().Is4() {
		t.Errorf("new has %v (%v)", got, err)
	}
	next, _ := newNode()
	next.SetNode("n1", prefixes("10.0.0.0/24", "fd00::/64"), prefixes("fd00::/64"))
	_, old, _ := a.Get("old")
	if got, err := next.Claim("n1", "old", Assignment{Addresses: old.Addresses, Slot: old.Slot}); err != nil || text(got) != text(old) {
		t.Errorf("restored %v (%v), had %v", got, err, old)
	}
}

// A node is lacking addresses from the first request that finds none until an address is free or a subnet comes.
func TestLacking(t *testing.T) {
	a, _ := newNode("10.0.0.0/29") // four addresses
	for i := range 4 {
		if _, err := a.Allocate("n1", Owner(fmt.Sprint(i)), Request{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.Lacking("n1"); len(got) > 0 {
		t.Errorf("a full node lacks %v before a request", got)
	}
	full := func() {
		t.Helper()
		if _, err := a.Allocate("n1", "late", Request{}); !errors.Is(err, ipam.ErrExhausted) {
			t.Fatal(err)
		}
		if got := a.Lacking("n1"); !slices.Equal(got, []bool{true}) {
			t.Errorf("lacking: %v", got)
		}
	}
	newly := func(want bool) {
		t.Helper()
		if got := a.NewlyLacking("n1"); got != want {
			t.Errorf("newly lacking: %v", got)
		}
	}
	newly(false)
	full()
	newly(true)
	full() // the request is repeated
	newly(false)
	a.Release("0")
	if got := a.Lacking("n1"); len(got) > 0 {
		t.Errorf("lacks %v although an address is free", got)
	}
	if _, err := a.Allocate("n1", "0", Request{}); err != nil {
		t.Fatal(err)
	}
	full()
	newly(true)
	a.SetNode("n1", prefixes("10.0.0.0/29", "10.0.1.0/29"), nil)
	if got := a.Lacking("n1"); len(got) > 0 {
		t.Errorf("lacks %v with another subnet", got)
	}
	if got, err := a.Allocate("n1", "late", Request{}); err != nil || got.Addresses[0].String() != "10.0.1.3/29" {
		t.Errorf("late has %v (%v)", got, err)
	}
}

// A node whose subnets are all leaving gives no assignment, not even one without addresses, until it has another subnet. A pod with a
// floating address needs none.
func TestAllSubnetsLeave(t *testing.T) {
	a, _ := newNode("10.0.0.0/24", "fd00::/64")
	a.SetNode("n1", prefixes("10.0.0.0/24", "fd00::/64"), prefixes("10.0.0.0/24", "fd00::/64"))
	const want = "node n1: exhausted: no other subnet than 10.0.0.0/24, fd00::/64, which was removed from clusterNetwork"
	if got, err := a.Allocate("n1", "new", Request{}); !errors.Is(err, ipam.ErrExhausted) || err.Error() != want {
		t.Errorf("new has %v (%v)", got, err)
	}
	if got := a.Lacking("n1"); !slices.Equal(got, []bool{true, false}) || !a.NewlyLacking("n1") {
		t.Errorf("lacking: %v", got)
	}
	float := Request{Floating: []netip.Addr{netip.MustParseAddr("192.0.2.9")}}
	if got, err := a.Allocate("n1", "floats", float); err != nil || len(got.Addresses) != 1 {
		t.Errorf("floats has %v (%v)", got, err)
	}
	a.SetNode("n1", prefixes("10.0.0.0/24", "fd00::/64", "10.0.1.0/24"), prefixes("10.0.0.0/24", "fd00::/64"))
	if got, err := a.Allocate("n1", "new", Request{}); err != nil || len(got.Addresses) != 1 || got.Addresses[0].String() != "10.0.1.3/24" {
		t.Errorf("new has %v (%v)", got, err)
	}
	if got := a.Lacking("n1"); len(got) > 0 {
		t.Errorf("lacking: %v", got)
	}
}
