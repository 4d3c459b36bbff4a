package alloc

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/weft-network/weft/pkg/ipam"
)

// TestAllocationIsAllOrNothing: I3. If an address of one family is unavailable, the pod gets no address of the other
// either, however often it retries.
func TestAllocationIsAllOrNothing(t *testing.T) {
	a, c := newNode("10.0.0.0/24", "fd00::/124")
	subnet, small := netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/124")
	room := int(ipam.Capacity(small))
	for i := range room {
		if _, err := a.Allocate("n1", Owner(fmt.Sprint(i)), Request{}); err != nil {
			t.Fatal(err)
		}
	}
	wanted := Request{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.200")}, MAC: mustMAC(t, "52:54:00:12:34:56")}
	for range 1000 {
		for _, request := range []Request{{}, wanted} {
			if _, err := a.Allocate("n1", "one too many", request); !errors.Is(err, ipam.ErrExhausted) {
				t.Fatalf("error is %v", err)
			}
		}
		c.now = c.now.Add(Quarantine)
	}
	if used, _ := a.Used(subnet); used != int64(room) {
		t.Errorf("%d addresses of %s are used, want %d", used, subnet, room)
	}
	a.Release("0")
	got, err := a.Allocate("n1", "one too many", wanted)
	if err != nil || got.Addresses[0].Addr() != wanted.Addresses[0] || got.MAC.String() != "52:54:00:12:34:56" {
		t.Errorf("what was refused is not free: %+v, %v", got, err)
	}
}

// TestMemoryIsThatOfTheLiving: C8. Assignments of 10,000 pods use no memory after the pods are gone and their
// addresses have rested.
func TestMemoryIsThatOfTheLiving(t *testing.T) {
	a, c := newNode("10.0.0.0/26", "fd00::/64")
	for i := range 10_000 {
		owner, request := Owner(fmt.Sprint(i)), Request{}
		if i%3 == 0 {
			request.MAC = mustMAC(t, "52:54:00:12:34:56")
		}
		if _, err := a.Allocate("n1", owner, request); err != nil {
			t.Fatal(err)
		}
		a.Release(owner)
		c.now = c.now.Add(Quarantine / 10)
	}
	c.now = c.now.Add(2 * Quarantine)
	last, err := a.Allocate("n1", "last", Request{})
	if err != nil {
		t.Fatal(err)
	}
	n := a.nodes["n1"]
	sizes := map[string]int{"owners": len(a.owners), "owners of the node": len(n.owners), "slots": len(n.slots), "MACs": len(n.macs)}
	for _, p := range n.pools {
		sizes[p.subnet.String()] = len(p.used)
		sizes[p.subnet.String()+" resting"] = len(p.resting) + len(p.queue)
	}
	want := map[string]int{"owners": 1, "owners of the node": 1, "slots": 1, "10.0.0.0/26": 1, "fd00::/64": 1}
	for what, size := range sizes {
		if size != want[what] {
			t.Errorf("%s: %d, want %d (%+v)", what, size, want[what], last)
		}
	}
}
