package desired_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// Foreign mappings stay where they are. The agent's own follow the gateway and the physical networks.
func TestBridgeMapping(t *testing.T) {
	dc := map[string]string{"dc": "breth1"}
	for name, test := range map[string]struct {
		present, marked, gateway string
		physical                 map[string]string
		want, wantMarked         string
		drops                    bool
	}{
		"nothing":                          {},
		"the gateway's":                    {gateway: "br-ex", want: "physnet:br-ex"},
		"another bridge":                   {present: "physnet:br-old", gateway: "br-ex", want: "physnet:br-ex"},
		"beside a foreign one":             {present: "other:b,physnet:br-old", gateway: "br-ex", want: "other:b,physnet:br-ex"},
		"the gateway leaves a foreign one": {present: "other:b,physnet:br-old", want: "other:b"},
		"the gateway leaves":               {present: "physnet:br-ex", drops: true},
		"a physical network":               {physical: dc, want: "dc:breth1", wantMarked: "dc"},
		"all three": {present: "other:b,physnet:br-ex", gateway: "br-ex", physical: dc,
			want: "other:b,dc:breth1,physnet:br-ex", wantMarked: "dc"},
		"another bridge of a physical network": {present: "dc:old", marked: "dc", physical: dc, want: "dc:breth1", wantMarked: "dc"},
		"in order":                             {physical: map[string]string{"b": "brb", "a": "bra"}, want: "a:bra,b:brb", wantMarked: "a,b"},
		"a physical network leaves": {present: "other:b,dc:breth1,physnet:br-ex", marked: "dc", gateway: "br-ex",
			want: "other:b,physnet:br-ex", drops: true},
		"the last one leaves":       {present: "dc:breth1", marked: "dc", drops: true},
		"a foreign one of the name": {present: "dc:theirs", physical: dc, want: "dc:theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			present := map[string]string{}
			for key, value := range map[string]string{"ovn-bridge-mappings": test.present, "weft.dev/physical-networks": test.marked} {
				if value != "" {
					present[key] = value
				}
			}
			u := desired.BridgeMapping(present, test.gateway, test.physical)
			got := externalIDs(u)
			if got["ovn-bridge-mappings"] != test.want || got["weft.dev/physical-networks"] != test.wantMarked {
				t.Errorf("got %v", got)
			}
			if got := desired.MappedBridge(got); got != test.gateway {
				t.Errorf("MappedBridge is %q", got)
			}
			if desired.DropsMapping(present, u) != test.drops {
				t.Errorf("DropsMapping is %t", !test.drops)
			}
			again := desired.BridgeMapping(got, test.gateway, test.physical)
			if diff := cmp.Diff(got, externalIDs(again)); diff != "" {
				t.Errorf("a second computation differs: %s", diff)
			}
			if diff := cmp.Diff(present, externalIDs(desired.PresentMapping(present))); diff != "" {
				t.Errorf("the present mapping: %s", diff)
			}
		})
	}
}
