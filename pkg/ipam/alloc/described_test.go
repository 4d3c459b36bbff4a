package alloc

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-network/weft/pkg/ipam"
)

func described(subnet string, whole bool, exclude ...string) Pool {
	p := Pool{Subnet: netip.MustParsePrefix(subnet), Whole: whole}
	for _, e := range exclude {
		p.Exclude = append(p.Exclude, netip.MustParsePrefix(e))
	}
	return p
}

// A described pool gives exactly its addresses, each once, in order.
func TestDescribedPools(t *testing.T) {
	for _, c := range []struct {
		pool Pool
		want []string
	}{
		{described("10.0.0.0/29", true), []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}},
		{described("10.0.0.0/29", false), []string{"10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}},
		{described("10.0.0.0/29", true, "10.0.0.2/31", "10.0.0.6/32"), []string{"10.0.0.1", "10.0.0.4", "10.0.0.5"}},
		{described("fd00::/125", true, "fd00::4/126"), []string{"fd00::1", "fd00::2", "fd00::3"}},
		{described("10.0.0.0/29", true, "10.0.0.0/24"), nil},
		{described("10.0.0.0/31", false), nil},
	} {
		a := New(time.Now)
		a.SetPools("n", []Pool{c.pool})
		for i, want := range c.want {
			got, err := a.Allocate("n", Owner(fmt.Sprint("owner", i)), Request{})
			if err != nil || got.Addresses[0].Addr().String() != want {
				t.Errorf("%+v: address %d is %v, %v, want %s", c.pool, i, got.Addresses, err, want)
			}
		}
		if got, err := a.Allocate("n", "late", Request{}); !errors.Is(err, ipam.ErrExhausted) {
			t.Errorf("%+v: one more is %v, %v", c.pool, got.Addresses, err)
		}
	}
}

// An address that is excluded later stays with its owner, and is given to no other afterwards.
func TestExcludedLater(t *testing.T) {
	a := New(time.Now)
	a.SetPools("n", []Pool{described("10.0.0.0/29", true)})
	first, err := a.Allocate("n", "first", Request{})
	if err != nil {
		t.Fatal(err)
	}
	if dropped := a.SetPools("n", []Pool{described("10.0.0.0/29", true, "10.0.0.1/32")}); len(dropped) > 0 {
		t.Errorf("%v lost their addresses", dropped)
	}
	if _, got, ok := a.Get("first"); !ok || got.Addresses[0] != first.Addresses[0] {
		t.Errorf("first has %v", got)
	}
	a.Release("first")
	if _, err := a.Allocate("n", "second",
		Request{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("an excluded address is given on request: %v", err)
	}
}

// Whatever is excluded, the pool counts the addresses that it has, and walks over all of them.
func TestPoolsWalkOverAllAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := Pool{Subnet: netip.MustParsePrefix("10.0.0.0/26"), Whole: rapid.Bool().Draw(t, "whole")}
		for range rapid.IntRange(0, 4).Draw(t, "exclusions") {
			address := netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(0, 63).Draw(t, "address"))})
			of.Exclude = append(of.Exclude, netip.PrefixFrom(address, rapid.IntRange(27, 32).Draw(t, "bits")).Masked())
		}
		p := newPool(of)
		seen := map[netip.Addr]bool{}
		for address := p.next; p.size > 0 && !seen[address]; address = p.after(address) {
			seen[address] = true
			for _, excluded := range of.Exclude {
				if excluded.Contains(address) {
					t.Fatalf("%s is in %s", address, excluded)
				}
			}
		}
		if int64(len(seen)) != p.size {
			t.Fatalf("%d addresses, the pool counts %d", len(seen), p.size)
		}
	})
}
