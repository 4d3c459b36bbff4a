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
	a.SetNode("n1", parsed)
	return a, c
}

func TestExhaustionNamesTheSubnetAndItsSize(t *testing.T) {
	a, _ := newNode("10.0.0.0/29", "fd00::/64")
	for i := range 4 {
		if _, err := a.Allocate("n1", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := a.Allocate("n1", "one too many")
	if !errors.Is(err, ipam.ErrExhausted) || !strings.Contains(err.Error(), "10.0.0.0/29") || !strings.Contains(err.Error(), "4") {
		t.Errorf("error is %v", err)
	}
	if got, _ := a.Used(netip.MustParsePrefix("fd00::/64")); got != 4 {
		t.Errorf("%d IPv6 addresses are used, want 4: a failed allocation left one", got)
	}
}

func TestFreedAddressRests(t *testing.T) {
	a, c := newNode("10.0.0.0/29")
	first, _ := a.Allocate("n1", "a")
	a.Release("a")
	second, _ := a.Allocate("n1", "b")
	if first.Addresses[0] == second.Addresses[0] {
		t.Errorf("%s came back at once", first.Addresses[0])
	}
	for _, owner := range []string{"c", "d", "e"} { // the last takes the resting one: nothing else is left
		if _, err := a.Allocate("n1", owner); err != nil {
			t.Errorf("%s: %v", owner, err)
		}
	}
	a.Release("b")
	c.now = c.now.Add(Quarantine)
	if _, err := a.Allocate("n1", "f"); err != nil {
		t.Error(err)
	}
}

func TestClaimRefusesWhatIsNotOurs(t *testing.T) {
	a, _ := newNode("10.0.0.0/24")
	if _, err := a.Claim("n1", "a", Assignment{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.9/24")}, Slot: 20}); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]Assignment{
		"already of a":    {Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.9/24")}},
		"10.0.1.9/24":     {Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.1.9/24")}},
		"10.0.0.1/24":     {Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}},
		"port key 20":     {Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.10/24")}, Slot: 20},
		"port key 3 ":     {Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.10/24")}, Slot: 3},
		"0 addresses for": {},
	} {
		if _, err := a.Claim("n1", "b", c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Claim(%v): %v, want %q", c, err, want)
		}
	}
	next, err := a.Allocate("n1", "c")
	if err != nil || next.Addresses[0].Addr().String() != "10.0.0.10" {
		t.Errorf("next is %v, %v: not behind the claimed one", next, err)
	}
}

func TestAllocateIsIdempotent(t *testing.T) {
	a, _ := newNode("10.0.0.0/24", "fd00::/64")
	first, _ := a.Allocate("n1", "a")
	second, _ := a.Allocate("n1", "a")
	if first.Slot != second.Slot || first.Addresses[0] != second.Addresses[0] {
		t.Errorf("%v, then %v", first, second)
	}
}

// Whatever is allocated and released, no two owners share an address or a slot, and the counts are those of the live owners.
func TestNoAddressHasTwoOwners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, c := newNode("10.0.0.0/28", "10.0.1.0/29", "fd00::/124")
		live := map[string]Assignment{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			owner := fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "owner"))
			if rapid.Bool().Draw(t, "release") {
				a.Release(owner)
				delete(live, owner)
			} else if got, err := a.Allocate("n1", owner); err == nil {
				live[owner] = got
			} else if len(live) < 12 { // the smaller family, fd00::/124, holds 13
				t.Fatalf("exhausted with %d owners: %v", len(live), err)
			}
			c.now = c.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			seen := map[string]string{}
			for owner, got := range live {
				for _, key := range []string{got.Addresses[0].String(), got.Addresses[1].String(), fmt.Sprint("slot ", got.Slot), got.MAC.String()} {
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

// After a restart a slot that was freed just before does not come back at once, nor one that the database still has.
func TestSlotsComeBackLate(t *testing.T) {
	a := New(time.Now)
	a.SetNode("n", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")})
	if _, err := a.Claim("n", "x", Assignment{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.9/24")}, Slot: 40}); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Allocate("n", "y"); err != nil || got.Slot != 41 {
		t.Errorf("y has slot %d (%v), want 41", got.Slot, err)
	}
	a.SkipSlot("n", 50)
	a.SkipSlot("n", 45) // lies behind already
	if got, err := a.Allocate("n", "z"); err != nil || got.Slot != 51 {
		t.Errorf("z has slot %d (%v), want 51", got.Slot, err)
	}
	a.SkipSlot("n", LastSlot)
	if got, err := a.Allocate("n", "first"); err != nil || got.Slot != FirstSlot {
		t.Errorf("first has slot %d (%v), want %d", got.Slot, err, FirstSlot)
	}
}

// Whoever had an address of a subnet that the node lost (its NodeNetwork was deleted by hand, and made anew while others took the
// subnet) must get another: nobody routes the old one to the node.
func TestSubnetThatIsLostTakesItsAddressesAlong(t *testing.T) {
	a, _ := newNode("10.0.0.0/24", "fd00::/64")
	if _, err := a.Allocate("n1", "a"); err != nil {
		t.Fatal(err)
	}
	if dropped := a.SetNode("n1", prefixes("10.0.0.0/24", "fd00::/64", "10.0.2.0/24")); len(dropped) != 0 {
		t.Errorf("a subnet that came took the addresses of %v", dropped)
	}
	if dropped := a.SetNode("n1", prefixes("10.0.0.0/24", "fd00:1::/64")); !slices.Equal(dropped, []string{"a"}) {
		t.Errorf("dropped is %v, want [a]", dropped)
	}
	if _, _, ok := a.Get("a"); ok {
		t.Error("a still has its address of the subnet that is lost")
	}
	if got, err := a.Allocate("n1", "a"); err != nil || got.Addresses[1].Masked() != netip.MustParsePrefix("fd00:1::/64") {
		t.Errorf("a has %v, %v now", got.Addresses, err)
	}
}

func prefixes(texts ...string) (parsed []netip.Prefix) {
	for _, text := range texts {
		parsed = append(parsed, netip.MustParsePrefix(text))
	}
	return parsed
}
