package alloc

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-network/weft/pkg/ipam"
)

type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func newNode(subnets ...string) (*Allocator, *clock) {
	c := &clock{time.Unix(1000, 0)}
	a := New(c.read)
	var parsed []netip.Prefix
	for _, s := range subnets {
		parsed = append(parsed, netip.MustParsePrefix(s))
	}
	a.SetNode("n1", parsed, nil)
	return a, c
}

func TestExhaustionNamesTheSubnetAndItsSize(t *testing.T) {
	a, _ := newNode("10.0.0.0/29", "fd00::/64")
	for i := range 4 {
		if _, err := a.Allocate("n1", Owner(fmt.Sprint(i)), Request{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := a.Allocate("n1", "one too many", Request{})
	if !errors.Is(err, ipam.ErrExhausted) || !strings.Contains(err.Error(), "10.0.0.0/29") || !strings.Contains(err.Error(), "4") {
		t.Errorf("error is %v", err)
	}
	if got, _ := a.Used(netip.MustParsePrefix("fd00::/64")); got != 4 {
		t.Errorf("%d IPv6 addresses are used, want 4: a failed allocation left one", got)
	}
}

func TestFreedAddressRests(t *testing.T) {
	a, c := newNode("10.0.0.0/29")
	first, _ := a.Allocate("n1", "a", Request{})
	a.Release("a")
	second, _ := a.Allocate("n1", "b", Request{})
	if first.Addresses[0] == second.Addresses[0] {
		t.Errorf("%s came back at once", first.Addresses[0])
	}
	for _, owner := range []Owner{"c", "d", "e"} { // the last takes the address in quarantine, because no other is left
		if _, err := a.Allocate("n1", owner, Request{}); err != nil {
			t.Errorf("%s: %v", owner, err)
		}
	}
	a.Release("b")
	c.now = c.now.Add(Quarantine)
	if _, err := a.Allocate("n1", "f", Request{}); err != nil {
		t.Error(err)
	}
}

func TestClaimRefusesWhatIsNotOurs(t *testing.T) {
	a, _ := newNode("10.0.0.0/24")
	if _, err := a.Claim("n1", "a", Assignment{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.9/24")}, Slot: 20}); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]Assignment{
		"already belongs to a": {Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.9/24")}},
		"10.0.1.9/24":          {Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.1.9/24")}},
		"10.0.0.1/24":          {Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}},
		"port key 20":          {Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.10/24")}, Slot: 20},
		"port key 3 ":          {Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.10/24")}, Slot: 3},
		"it has no address":    {},
	} {
		if _, err := a.Claim("n1", "b", c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Claim(%v): %v, want %q", c, err, want)
		}
	}
	next, err := a.Allocate("n1", "c", Request{})
	if err != nil || next.Addresses[0].Addr().String() != "10.0.0.10" {
		t.Errorf("next is %v, %v: not behind the claimed one", next, err)
	}
}

func TestAllocateIsIdempotent(t *testing.T) {
	a, _ := newNode("10.0.0.0/24", "fd00::/64")
	first, _ := a.Allocate("n1", "a", Request{})
	second, _ := a.Allocate("n1", "a", Request{})
	if first.Slot != second.Slot || first.Addresses[0] != second.Addresses[0] {
		t.Errorf("%v, then %v", first, second)
	}
}

// After any sequence of allocations and releases, no two owners share an address or a slot, and the counts
// match the live owners.
func TestNoAddressHasTwoOwners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, c := newNode("10.0.0.0/28", "10.0.1.0/29", "fd00::/124")
		live := map[Owner]Assignment{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			owner := Owner(fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "owner")))
			if rapid.Bool().Draw(t, "release") {
				a.Release(owner)
				delete(live, owner)
			} else if got, err := a.Allocate("n1", owner, Request{}); err == nil {
				live[owner] = got
			} else if len(live) < 12 { // the smaller family, fd00::/124, holds 13
				t.Fatalf("exhausted with %d owners: %v", len(live), err)
			}
			c.now = c.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			seen := map[string]Owner{}
			for owner, got := range live {
				for _, key := range []string{got.Addresses[0].String(), got.Addresses[1].String(),
					fmt.Sprint("slot ", got.Slot), got.MAC.String()} {
					if other, twice := seen[key]; twice {
						t.Fatalf("%s is of %s and %s", key, other, owner)
					}
					seen[key] = owner
				}
			}
			if got, _ := a.Used(netip.MustParsePrefix("fd00::/124")); got != int64(len(live)) {
				t.Fatalf("%d used, %d live", got, len(live))
			}
		}
	})
}

// After a restart, neither a slot that was freed just before nor a slot that the database still has is reused at
// once.
func TestSlotsComeBackLate(t *testing.T) {
	a := New(time.Now)
	a.SetNode("n", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, nil)
	if _, err := a.Claim("n", "x", Assignment{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.9/24")}, Slot: 40}); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Allocate("n", "y", Request{}); err != nil || got.Slot != 41 {
		t.Errorf("y has slot %d (%v), want 41", got.Slot, err)
	}
	a.SkipSlot("n", 50)
	a.SkipSlot("n", 45) // is behind it already
	if got, err := a.Allocate("n", "z", Request{}); err != nil || got.Slot != 51 {
		t.Errorf("z has slot %d (%v), want 51", got.Slot, err)
	}
	a.SkipSlot("n", LastSlot)
	if got, err := a.Allocate("n", "first", Request{}); err != nil || got.Slot != FirstSlot {
		t.Errorf("first has slot %d (%v), want %d", got.Slot, err, FirstSlot)
	}
}

// An owner of an address in a subnet that the node lost must get another address, because the old one is no longer
// routed to the node. A node loses a subnet when its NodeNetwork is deleted by hand and recreated after another node
// has taken the subnet.
func TestSubnetThatIsLostTakesItsAddressesAlong(t *testing.T) {
	a, _ := newNode("10.0.0.0/24", "fd00::/64")
	if _, err := a.Allocate("n1", "a", Request{}); err != nil {
		t.Fatal(err)
	}
	if dropped, _ := a.SetNode("n1", prefixes("10.0.0.0/24", "fd00::/64", "10.0.2.0/24"), nil); len(dropped) != 0 {
		t.Errorf("a subnet that came took the addresses of %v", dropped)
	}
	if dropped, _ := a.SetNode("n1", prefixes("10.0.0.0/24", "fd00:1::/64"), nil); !slices.Equal(dropped, []Owner{"a"}) {
		t.Errorf("dropped is %v, want [a]", dropped)
	}
	if _, _, ok := a.Get("a"); ok {
		t.Error("a still has its address of the subnet that is lost")
	}
	if got, err := a.Allocate("n1", "a", Request{}); err != nil || got.Addresses[1].Masked() != netip.MustParsePrefix("fd00:1::/64") {
		t.Errorf("a has %v, %v now", got.Addresses, err)
	}
}

func prefixes(texts ...string) (parsed []netip.Prefix) {
	for _, text := range texts {
		parsed = append(parsed, netip.MustParsePrefix(text))
	}
	return parsed
}

// An address that a host outside has is not chosen, not even as the last one, and can be requested.
func TestAnAvoidedAddress(t *testing.T) {
	a, _ := newNode("10.0.0.0/29") // .3 to .6
	avoid := []netip.Addr{netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("192.0.2.1")}
	wanted := func(owner Owner, request Request, want string) {
		t.Helper()
		if got, err := a.Allocate("n1", owner, request); err != nil || text(got) != want {
			t.Errorf("%s has %v (%v), want %s", owner, got.Addresses, err, want)
		}
	}
	wanted("a", Request{Avoid: avoid}, "[10.0.0.4/29]")
	wanted("b", Request{Avoid: avoid}, "[10.0.0.6/29]")
	wanted("c", Request{Addresses: avoid[1:2], Avoid: avoid}, "[10.0.0.5/29]")
	a.Release("c")
	_, err := a.Allocate("n1", "d", Request{Avoid: avoid})
	if want := "all 4 are in use, or hosts of the segment answer for them (2)"; !errors.Is(err, ipam.ErrExhausted) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want %q", err, want)
	}
	a.Release("b") // rests, behind c's address
	wanted("e", Request{Avoid: avoid}, "[10.0.0.6/29]")
	wanted("f", Request{}, "[10.0.0.3/29]") // c's address still rests
}
