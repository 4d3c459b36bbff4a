package alloc

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestClaimsWaitForTheirNode(t *testing.T) {
	a := New(func() time.Time { return time.Unix(0, 0) })
	address := func(text string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(text)} }
	a.ClaimLater("n1", "kept", address("10.0.0.3"), Assignment{Slot: 20})
	a.ClaimLater("n1", "kept", address("10.0.0.9"), Assignment{}) // the address in the pod's status ranks behind its port's address
	a.ClaimLater("n1", "elsewhere", address("10.0.7.3"), Assignment{})
	a.ClaimLater("n1", "gone", address("10.0.0.4"), Assignment{})
	a.Release("gone")
	if !a.Awaits("kept") || a.Awaits("gone") {
		t.Error("kept does not wait, or gone does")
	}
	clone := a.Clone()
	for _, each := range []*Allocator{a, clone} {
		each.SetNode("n1", prefixes("10.0.0.0/24"), nil)
		if _, got, ok := each.Get("kept"); !ok || got.Addresses[0] != netip.MustParsePrefix("10.0.0.3/24") || got.Slot != 20 {
			t.Errorf("kept has %v", got)
		}
		for _, nobody := range []Owner{"elsewhere", "gone"} {
			if _, got, ok := each.Get(nobody); ok || each.Awaits(nobody) {
				t.Errorf("%s has %v", nobody, got)
			}
		}
		if next, err := each.Allocate("n1", "new", Request{}); err != nil || next.Addresses[0].Addr() == netip.MustParseAddr("10.0.0.3") {
			t.Errorf("new has %v, %v", next, err)
		}
	}
	a.ClaimLater("n1", "late", address("10.0.0.8"), Assignment{})
	if a.Awaits("late") {
		t.Error("a claim on a node that is known waits")
	}
	a.ClaimLater("n2", "b", address("10.0.1.3"), Assignment{})
	if owners := a.RemoveNode("n2"); !slices.Equal(owners, []Owner{"b"}) || a.Awaits("b") {
		t.Errorf("the node went with the claims of %v", owners)
	}
}
