package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/facts"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
)

func backendTexts(count int) (texts []string) {
	for i := range count {
		texts = append(texts, fmt.Sprintf("10.244.%d.%d:8080", i%7, 3+i))
	}
	return texts
}

// Each backend has the same number of places, give or take one.
func TestPlacesAreShared(t *testing.T) {
	for count := 2; count <= mostPlaced; count++ {
		have := map[string]int{}
		for _, backend := range placed(backendTexts(count)) {
			have[backend]++
		}
		if len(have) != count {
			t.Fatalf("of %d backends %d have a place", count, len(have))
		}
		for backend, n := range have {
			if n < places/count || n > places/count+1 {
				t.Errorf("of %d backends, %s has %d places", count, backend, n)
			}
		}
	}
	for _, count := range []int{0, 1, mostPlaced + 1, 500} {
		if backends := backendTexts(count); !slices.Equal(placed(backends), backends) {
			t.Errorf("%d backends are not as they were", count)
		}
	}
}

// When a backend is added or removed, almost all clients of other backends stay.
func TestPlacesStay(t *testing.T) {
	for count := 2; count <= mostPlaced; count++ {
		all := backendTexts(count)
		before, moved := placed(all), 0
		for gone := range all {
			after := placed(slices.Delete(slices.Clone(all), gone, gone+1))
			if count == 2 {
				after = slices.Repeat(after, places) // one backend has them all
			}
			for i := range before {
				if before[i] != all[gone] && before[i] != after[i] {
					moved++
				}
			}
		}
		part := 100 * float64(moved) / float64(places*count)
		t.Logf("of %d backends one goes: %.1f %% of the clients of others move", count, part)
		if part > 11 { // docs/dev/topology.md says so
			t.Errorf("of %d backends one goes: %.1f %% of the clients of others move", count, part)
		}
	}
}

// The places are in OVN's backend list, also where backends differ by node. A service without affinity has no places.
func TestAffinityGoesByTheClientsAddress(t *testing.T) {
	backends := []facts.Backend{{AddrPort: netip.MustParseAddrPort("10.244.0.3:8080")},
		{AddrPort: netip.MustParseAddrPort("10.244.1.3:8080")}}
	vip := netip.MustParseAddrPort("10.96.0.10:80")
	for _, from := range []facts.Choice{facts.FromAll, facts.FromNear} {
		s := facts.Service{Namespace: "demo", Name: "web", Nodes: []facts.ServiceNode{{Name: "w1", Chassis: "c1"}},
			Ports: []facts.ServicePort{{Protocol: corev1.ProtocolTCP, Number: 80,
				VIPs: []facts.VIP{{AddrPort: vip, Reach: facts.ReachAll, From: from}}, Backends: backends}}}
		for _, affinity := range []bool{false, true} {
			s.Affinity = affinity
			u := ServiceUnit(s)
			lb := u.Rows[0].Model.(*nbdb.LoadBalancer)
			text := lb.Vips[vip.String()]
			for _, member := range u.Members {
				if member.Column == "variables" {
					text = member.Value
				}
			}
			want, fields := 2, []string(nil)
			if affinity {
				want, fields = places, []string{"ip_src"}
			}
			if got := len(strings.Split(text, ",")); got != want || !slices.Equal(lb.SelectionFields, fields) {
				t.Errorf("from %s, affinity %t: %d backends by %v, want %d by %v", from, affinity, got, lb.SelectionFields, want, fields)
			}
		}
	}
}
