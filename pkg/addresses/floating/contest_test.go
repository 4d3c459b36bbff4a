package floating_test

import (
	"net/netip"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// natPool returns a NAT pool of generation 3 with the range 192.0.2.8/30.
func natPool(name string, change ...func(*networkv1alpha1.IPPool)) networkv1alpha1.IPPool {
	p := networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3}}
	p.Spec.Location, p.Spec.Ranges = networkv1alpha1.LocationNAT, []networkv1alpha1.IPPoolRange{{Addresses: "192.0.2.8/30"}}
	for _, c := range change {
		c(&p)
	}
	return p
}

func inForce(ranges ...string) func(*networkv1alpha1.IPPool) {
	return func(p *networkv1alpha1.IPPool) { p.Status.Ranges = ranges }
}

func isReady(status metav1.ConditionStatus, generation int64) func(*networkv1alpha1.IPPool) {
	return func(p *networkv1alpha1.IPPool) {
		p.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: status, ObservedGeneration: generation}}
	}
}

// The ranges of an accepted spec are in force, or else the ranges in the status, whatever addresses are in use.
func TestRangesInForce(t *testing.T) {
	used := func(p *networkv1alpha1.IPPool) { p.Status.Used, p.Status.Kept = 1, 1 }
	of := []string{"192.0.2.8-192.0.2.11"}
	for name, c := range map[string]struct {
		pool networkv1alpha1.IPPool
		want []string
	}{
		"a new pool":               {natPool("a"), nil},
		"refused":                  {natPool("a", isReady(metav1.ConditionFalse, 3), used), nil},
		"refused, with ranges":     {natPool("a", inForce("192.0.2.1"), isReady(metav1.ConditionFalse, 3), used), []string{"192.0.2.1"}},
		"accepted":                 {natPool("a", isReady(metav1.ConditionTrue, 3)), of},
		"accepted, with ranges":    {natPool("a", inForce("192.0.2.1"), isReady(metav1.ConditionTrue, 3)), of},
		"accepted for a former":    {natPool("a", isReady(metav1.ConditionTrue, 2)), nil},
		"former, with its ranges":  {natPool("a", inForce("192.0.2.1"), isReady(metav1.ConditionTrue, 2)), []string{"192.0.2.1"}},
		"no condition, in use":     {natPool("a", used), nil},
		"no condition, has ranges": {natPool("a", inForce("192.0.2.1")), []string{"192.0.2.1"}},
	} {
		if have := floating.Ranges(&c.pool); !slices.Equal(have, c.want) {
			t.Errorf("%s: %v, want %v", name, have, c.want)
		}
	}
}

// A pool whose status was lost keeps the addresses that workloads have, joined, at most 64 ranges.
func TestRangesInUse(t *testing.T) {
	book := floating.NewBook()
	place := func(address, pool string, isHeld bool) {
		f := &networkv1alpha1.FloatingIP{}
		f.Name, f.UID = networkv1alpha1.FloatingIPName(netip.MustParseAddr(address)), types.UID(address)
		f.Spec.Address, f.Spec.Pool = networkv1alpha1.EgressAddress(address), pool
		if isHeld {
			f.Spec.Holder = &networkv1alpha1.FloatingIPHolder{Kind: "Pod", Name: "web", PodUID: "uid"}
		}
		book.Observe(f)
	}
	if have := book.RangesInUse("a"); have != nil {
		t.Errorf("an unknown pool has %v", have)
	}
	for _, address := range []string{"192.0.2.11", "192.0.2.9", "192.0.2.10", "192.0.2.13", "2001:db8::1"} {
		place(address, "a", true)
	}
	place("192.0.2.12", "a", false)
	place("192.0.2.14", "b", true)
	if have, want := book.RangesInUse("a"), []string{"192.0.2.9-192.0.2.11", "192.0.2.13", "2001:db8::1"}; !slices.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
	for i := range 100 {
		place(netip.AddrFrom4([4]byte{198, 51, 100, byte(2 * i)}).String(), "c", true)
	}
	if have := book.RangesInUse("c"); len(have) != 64 || have[0] != "198.51.100.0" || have[63] != "198.51.100.126" {
		t.Errorf("%d ranges: %v", len(have), have)
	}
}

func TestOwnersInForce(t *testing.T) {
	overlay := natPool("overlay", inForce("192.0.2.1"))
	overlay.Spec.Location = networkv1alpha1.LocationOverlay
	all := floating.NewInForce([]networkv1alpha1.IPPool{overlay, natPool("b", inForce("192.0.2.2", "192.0.2.4-192.0.2.5")),
		natPool("a", inForce("192.0.2.5"), isReady(metav1.ConditionFalse, 3)), natPool("new")})
	for address, want := range map[string]string{"192.0.2.1": "", "192.0.2.2": "IPPool b", "192.0.2.3": "", "192.0.2.4": "IPPool b",
		"192.0.2.5": "IPPool a", "192.0.2.9": ""} {
		if have := all.Owner(netip.MustParseAddr(address)); have != want {
			t.Errorf("%s belongs to %q, want %q", address, have, want)
		}
	}
}
