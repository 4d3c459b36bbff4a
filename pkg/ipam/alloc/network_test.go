package alloc_test

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
)

func whole(subnet string, excluded ...string) []alloc.Pool {
	pool := alloc.Pool{Subnet: netip.MustParsePrefix(subnet), Whole: true}
	for _, text := range excluded {
		pool.Exclude = append(pool.Exclude, netip.MustParsePrefix(text))
	}
	return []alloc.Pool{pool}
}

func held(addresses ...string) (a alloc.Assignment) {
	for _, text := range addresses {
		a.Addresses = append(a.Addresses, netip.MustParsePrefix(text))
	}
	a.Slot = alloc.FirstSlot
	return a
}

// What a running interface has survives a restart, even if its Network would give something else now.
func TestReclaimedAssignments(t *testing.T) {
	dual := append(whole("10.1.0.0/29", "10.1.0.2/32"), whole("fd00::/64")...)
	for name, test := range map[string]struct {
		have  alloc.Assignment
		wrong string
	}{
		"excluded since":              {held("10.1.0.2/29", "fd00::5/64"), ""},
		"of one family":               {held("10.1.0.3/29"), ""},
		"the broadcast address":       {held("10.1.0.7/29"), "are not addresses of a pod"},
		"two of a family":             {held("10.1.0.3/29", "10.1.0.4/29"), "are not addresses of a pod"},
		"in no subnet":                {held("10.2.0.3/29"), "are not addresses of a pod"},
		"none":                        {held(), "has no address"},
		"another owner's":             {held("10.1.0.1/29"), "already belongs to first"},
		"a slot that is not possible": {alloc.Assignment{Addresses: held("10.1.0.3/29").Addresses, Slot: 3}, "port key 3"},
	} {
		a := alloc.New(time.Now)
		a.SetPools("*", dual)
		if _, err := a.Allocate("*", "first", alloc.Request{Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.1")}}); err != nil {
			t.Fatal(err)
		}
		test.have.Slot += 5 // not the first owner's
		if name == "a slot that is not possible" {
			test.have.Slot = 3
		}
		got, err := a.Reclaim("*", "second", test.have)
		if test.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%s: %v, want %q", name, err, test.wrong)
			}
			continue
		}
		kept, err2 := a.Allocate("*", "second", alloc.Request{})
		if err != nil || err2 != nil || !slices.Equal(kept.Addresses, test.have.Addresses) || got.Slot != kept.Slot {
			t.Errorf("%s: reclaimed %v (%v), then allocated %v (%v)", name, got, err, kept, err2)
		}
	}
}

// Addresses that are excluded while they are used, or rest, take no place from the others.
func TestExcludedAddressesTakeNoPlace(t *testing.T) {
	a := alloc.New(time.Now)
	a.SetPools("*", whole("10.1.0.0/29"))
	for _, owner := range []alloc.Owner{"a", "b", "c"} { // 10.1.0.1 to 10.1.0.3
		if _, err := a.Allocate("*", owner, alloc.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	a.Release("c") // it rests
	a.SetPools("*", whole("10.1.0.0/29", "10.1.0.0/30"))
	for _, want := range []string{"10.1.0.4/29", "10.1.0.5/29", "10.1.0.6/29"} {
		got, err := a.Allocate("*", alloc.Owner(want), alloc.Request{})
		if err != nil || got.Addresses[0].String() != want {
			t.Errorf("allocated %v, %v, want %s", got.Addresses, err, want)
		}
	}
	if got, err := a.Allocate("*", "more", alloc.Request{}); !errors.Is(err, ipam.ErrExhausted) {
		t.Errorf("allocated %v, %v from a full pool", got.Addresses, err)
	}
}

// A MAC of the form that is derived from addresses is refused, whatever address happens to be the next one.
func TestDerivedMACIsNotGrantedByChance(t *testing.T) {
	a := alloc.New(time.Now)
	a.SetPools("*", whole("10.1.0.0/29"))
	mac, _ := net.ParseMAC("0a:58:0a:01:00:01") // of 10.1.0.1, the next address
	if got, err := a.Allocate("*", "a", alloc.Request{MAC: mac}); !errors.Is(err, alloc.ErrUnavailable) {
		t.Errorf("allocated %v, %v", got, err)
	}
	if got, err := a.Allocate("*", "a", alloc.Request{MAC: mac, Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.1")}}); err != nil {
		t.Errorf("allocated %v, %v, with the address of that MAC", got, err)
	}
}

// Two pods that configure themselves cannot have one MAC.
func TestMACsWithoutAddresses(t *testing.T) {
	a := alloc.New(time.Now)
	mac, _ := net.ParseMAC("02:00:00:00:00:01")
	if err := a.AllocateMAC("*", "a", mac); err != nil {
		t.Fatal(err)
	}
	if err := a.AllocateMAC("*", "a", mac); err != nil {
		t.Errorf("its owner is refused its MAC: %v", err)
	}
	if err := a.AllocateMAC("*", "b", mac); !errors.Is(err, alloc.ErrUnavailable) {
		t.Errorf("another owner: %v", err)
	}
	a.Release("a")
	if err := a.AllocateMAC("*", "b", mac); err != nil {
		t.Errorf("after its release: %v", err)
	}
}

// An error about a network without nodes' subnets names no node.
func TestErrorWithoutANode(t *testing.T) {
	a := alloc.New(time.Now)
	a.SetPools(alloc.EveryNode, whole("10.1.0.0/30"))
	request := alloc.Request{Addresses: []netip.Addr{netip.MustParseAddr("10.2.0.1")}}
	if _, err := a.Allocate(alloc.EveryNode, "a", request); err == nil || strings.Contains(err.Error(), "node") {
		t.Errorf("error %v", err)
	}
	if _, err := a.Allocate("n1", "a", request); err == nil || !strings.Contains(err.Error(), "node n1") {
		t.Errorf("error %v", err)
	}
}
