package pod

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/topology"
)

func TestDecide(t *testing.T) {
	address := netip.MustParseAddr("10.244.0.3")
	assigned := alloc.Assignment{Addresses: []netip.Prefix{netip.PrefixFrom(address, 24)}, Slot: 16, MAC: ipam.MAC([]netip.Addr{address})}
	stored := &topology.PortAssignment{Addresses: []netip.Addr{address}, Slot: 17, Chassis: "stored"}
	ofStored := alloc.Assignment{Addresses: wholeLength(stored.Addresses), Slot: 17, MAC: ipam.MAC(stored.Addresses)}
	has := func(s *surroundings) { s.hasAddress, s.on, s.assigned = true, "n1", assigned }
	at := func(p place) func(*surroundings) { return func(s *surroundings) { s.place = p } }
	east := func(s *surroundings) { s.place, s.zone = here, "east" }
	for name, c := range map[string]struct {
		reported []netip.Addr
		pool     string
		given    []func(*surroundings)
		want     decision
		reason   string
	}{
		"elsewhere": {given: []func(*surroundings){at(elsewhere)}, want: decision{fate: release}},
		"elsewhere with an address": {reported: []netip.Addr{address}, given: []func(*surroundings){at(elsewhere)},
			want: decision{fate: follow}},
		"here":                 {given: []func(*surroundings){at(here)}, want: decision{fate: give, chassis: "c1"}},
		"here with an address": {given: []func(*surroundings){at(here), has}, want: decision{fate: give, chassis: "c1"}},
		"a port without an address": {given: []func(*surroundings){at(here), func(s *surroundings) { s.applied = true }},
			want: decision{fate: give, chassis: "c1", portFirst: true}},
		"a port whose address is awaited": {given: []func(*surroundings){at(here), func(s *surroundings) { s.applied, s.awaits = true, true }},
			want: decision{fate: give, chassis: "c1"}},
		"a pool in a zone": {pool: "web", given: []func(*surroundings){east, has}, want: decision{fate: refuse},
			reason: "zone east has no floating addresses"},
		"networks in a zone": {given: []func(*surroundings){east, func(s *surroundings) { s.networks = "1" }}, want: decision{fate: refuse},
			reason: "zone east attaches no secondary networks"},
		"networks in a zone with an address": {given: []func(*surroundings){east, has, func(s *surroundings) { s.networks = "1" }},
			want: decision{fate: give, chassis: "c1"}},
		"away": {given: []func(*surroundings){at(away)}, want: decision{fate: release}},
		"away with an address of elsewhere": {given: []func(*surroundings){has, func(s *surroundings) { s.on = "n2" }},
			want: decision{fate: release}},
		"away without a unit": {given: []func(*surroundings){has}, want: decision{fate: leave}},
		"away with a unit": {given: []func(*surroundings){has, func(s *surroundings) { s.chassis = "last" }},
			want: decision{fate: keep, chassis: "last", assigned: assigned}},
		"away with a stored port": {given: []func(*surroundings){has, func(s *surroundings) { s.chassis, s.stored = "last", stored }},
			want: decision{fate: keep, chassis: "stored", assigned: assigned}},
		"an awaited address of a stored port": {given: []func(*surroundings){func(s *surroundings) { s.awaits, s.stored = true, stored }},
			want: decision{fate: keep, chassis: "stored", assigned: ofStored}},
		"away with a unit whose address is awaited": {given: []func(*surroundings){func(s *surroundings) { s.awaits, s.chassis = true, "last" }},
			want: decision{fate: leave}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := aPod()
			if c.pool != "" {
				annotated(networkv1alpha1.IPPoolAnnotation, c.pool)(pod)
			}
			p, s := read(pod), surroundings{node: onNode("10.244.0.0/24")}
			p.reported, s.node.Status.Chassis = c.reported, "c1"
			for _, change := range c.given {
				change(&s)
			}
			got := decide(&p, &s)
			if text := ""; got.reason != nil || c.reason != "" {
				if got.reason != nil {
					text = got.reason.Error()
				}
				if !errors.Is(got.reason, errRequest) || !strings.Contains(text, c.reason) {
					t.Errorf("it is refused because of %q, want %q", text, c.reason)
				}
			}
			got.reason = nil
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(decision{}), cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
