package floating_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/floating"
)

// Before counts what a search through all addresses of the workload finds, whatever happened to them.
func TestBeforeIsWhatASearchFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	book, version := floating.NewBook(), 0
	var all []*networkv1alpha1.FloatingIP
	for range 2000 {
		address := netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(40))})
		if r.IntN(3) == 0 {
			address = netip.AddrFrom16([16]byte{0x20, 1, 15: byte(r.IntN(40))})
		}
		version++
		pod := fmt.Sprint("web-", version)
		a := askerOf("Deployment "+[]string{"web", "api"}[r.IntN(2)], pod, "release-policy=Immutable")
		f := floating.Claimed(floating.Choice{Address: address, Index: int32(r.IntN(2))}, a, "n1", metav1.Now())
		f.UID, f.ResourceVersion = types.UID(pod), strconv.Itoa(version)
		if r.IntN(2) == 0 {
			f = floating.Ended(f, floating.Outcome{Released: r.IntN(4) == 0}, metav1.Now())
		}
		book.Observe(f)
		all = book.InPool("web")
		for _, mine := range all {
			if mine.Spec.Holder == nil {
				continue
			}
			if have, want := book.Before(mine), searched(all, mine); have != want {
				t.Fatalf("%s of %v: %d addresses are before it, want %d", mine.Spec.Address, mine.Spec.Holder, have, want)
			}
		}
	}
}

func searched(all []*networkv1alpha1.FloatingIP, mine *networkv1alpha1.FloatingIP) (n int) {
	address := netip.MustParseAddr(string(mine.Spec.Address))
	for _, other := range all {
		theirs := netip.MustParseAddr(string(other.Spec.Address))
		if h := other.Spec.Holder; h != nil && h.Name == mine.Spec.Holder.Name && h.Index == mine.Spec.Holder.Index &&
			theirs.Is4() == address.Is4() && theirs != address && (h.PodUID != "" || theirs.Less(address)) {
			n++
		}
	}
	return n
}

// Nodes get subnets where a refused Overlay pool lies, unless its addresses are in use.
func TestOverlayPoolsThatKeepTheirRanges(t *testing.T) {
	refused := metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: 2,
		Reason: networkv1alpha1.ReasonRangeOverlaps}
	for name, c := range map[string]struct {
		change func(*networkv1alpha1.IPPool)
		keeps  bool
	}{
		"not reported yet": {func(*networkv1alpha1.IPPool) {}, true},
		"refused":          {func(p *networkv1alpha1.IPPool) { p.Status.Conditions = []metav1.Condition{refused} }, false},
		"refused before its last change": {func(p *networkv1alpha1.IPPool) {
			p.Generation, p.Status.Conditions = 3, []metav1.Condition{refused}
		}, true},
		"refused, with a pod": {func(p *networkv1alpha1.IPPool) {
			p.Status.Conditions, p.Status.Used = []metav1.Condition{refused}, 1
		}, true},
		"refused, with kept addresses": {func(p *networkv1alpha1.IPPool) {
			p.Status.Conditions, p.Status.Kept = []metav1.Condition{refused}, 1
		}, true},
	} {
		p := networkv1alpha1.IPPool{}
		p.Generation, p.Spec.Location = 2, networkv1alpha1.LocationOverlay
		p.Spec.Ranges = []networkv1alpha1.IPPoolRange{{Addresses: "10.244.0.0/24"}}
		c.change(&p)
		if kept := len(floating.Overlay([]networkv1alpha1.IPPool{p})) > 0; kept != c.keeps {
			t.Errorf("%s: keeps %t, want %t", name, kept, c.keeps)
		}
	}
}
