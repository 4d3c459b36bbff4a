package desired_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/unit"
)

// Foreign mappings stay where they are. The agent's own follow the gateway and the physical networks.
func TestBridgeMapping(t *testing.T) {
	dc := map[string]string{"dc": "breth1"}
	for name, test := range map[string]struct {
		present, marked, gateway string
		physical                 map[string]string
		want, wantMarked         string
	}{
		"nothing":                          {},
		"the gateway's":                    {gateway: "br-ex", want: "physnet:br-ex"},
		"another bridge":                   {present: "physnet:br-old", gateway: "br-ex", want: "physnet:br-ex"},
		"beside a foreign one":             {present: "other:b,physnet:br-old", gateway: "br-ex", want: "other:b,physnet:br-ex"},
		"the gateway leaves a foreign one": {present: "other:b,physnet:br-old", want: "other:b"},
		"the gateway leaves":               {present: "physnet:br-ex"},
		"a physical network":               {physical: dc, want: "dc:breth1", wantMarked: "dc"},
		"all three": {present: "other:b,physnet:br-ex", gateway: "br-ex", physical: dc,
			want: "other:b,physnet:br-ex,dc:breth1", wantMarked: "dc"},
		"another bridge of a physical network": {present: "dc:old", marked: "dc", physical: dc, want: "dc:breth1", wantMarked: "dc"},
		"in order":                             {physical: map[string]string{"b": "brb", "a": "bra"}, want: "a:bra,b:brb", wantMarked: "a,b"},
		"a physical network leaves": {present: "other:b,dc:breth1,physnet:br-ex", marked: "dc", gateway: "br-ex",
			want: "other:b,physnet:br-ex"},
		"the last one leaves":       {present: "dc:breth1", marked: "dc"},
		"a foreign one of the name": {present: "dc:theirs", physical: dc, want: "dc:theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			present := map[string]string{}
			for key, value := range map[string]string{"ovn-bridge-mappings": test.present, "weft.dev/physical-networks": test.marked} {
				if value != "" {
					present[key] = value
				}
			}
			got := written(present, desired.BridgeMapping(present, test.gateway, test.physical))
			if got["ovn-bridge-mappings"] != test.want || got["weft.dev/physical-networks"] != test.wantMarked {
				t.Errorf("got %v", got)
			}
			if got := desired.MappedBridge(got); got != test.gateway {
				t.Errorf("MappedBridge is %q", got)
			}
			again := written(got, desired.BridgeMapping(got, test.gateway, test.physical))
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("a second computation differs: %s", diff)
			}
			got["ovn-bridge-mappings"] = vswitchdb.CombineMappings(got["ovn-bridge-mappings"], "late:b")
			if after := written(got, desired.BridgeMapping(got, test.gateway, test.physical)); desired.BridgeTo(after, "late") != "b" {
				t.Errorf("the mapping of another program was removed: %v", after)
			}
		})
	}
}

// written returns external_ids after the engine has written a unit's mappings.
func written(present map[string]string, u unit.Unit) map[string]string {
	want := externalIDs(u)
	after := map[string]string{
		"ovn-bridge-mappings":        vswitchdb.CombineMappings(present["ovn-bridge-mappings"], want["ovn-bridge-mappings"]),
		"weft.dev/physical-networks": want["weft.dev/physical-networks"],
	}
	maps.DeleteFunc(after, func(_, value string) bool { return value == "" })
	return after
}

// The copy of external_ids may lack what the process has just written.
func TestMappingThatTheCopyLacks(t *testing.T) {
	stale := map[string]string{"ovn-bridge-mappings": "other:b"}
	u := desired.BridgeMapping(stale, "br-ex", nil, "dc")
	got := vswitchdb.CombineMappings("other:b,dc:breth1,physnet:br-ex", externalIDs(u)["ovn-bridge-mappings"])
	if want := "other:b,physnet:br-ex"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
