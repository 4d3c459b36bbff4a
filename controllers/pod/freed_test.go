package pod

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// A node may wait for an address of a port that ends.
func TestFreedAddressesOfPortsArePublished(t *testing.T) {
	one, two := netip.MustParseAddr("10.244.0.3"), netip.MustParseAddr("10.244.0.4")
	name := types.NamespacedName{Namespace: "a", Name: "p"}
	var freed []netip.Addr
	r := &Reconciler{Addresses: alloc.New(time.Now), Triggers: &trigger.Set{}, PortsFreed: &kind.Topic[netip.Addr]{}}
	r.PortsFreed.Subscribe(func(a netip.Addr) {
		if slices.Contains(r.Addresses.HeldAddresses(), a) {
			t.Errorf("%s is published before it is free", a)
		}
		freed = append(freed, a)
	})
	r.state.add("a/p/uid")
	r.Addresses.Hold("a/p/uid", []netip.Addr{one, two})
	r.holdOnly("a/p/uid", given{own: []netip.Addr{two}})
	if !slices.Equal(freed, []netip.Addr{one}) {
		t.Errorf("of an address that went, %v", freed)
	}
	r.free(name, "")
	if !slices.Equal(freed, []netip.Addr{one, two}) {
		t.Errorf("of the pod's end, %v", freed)
	}
}
