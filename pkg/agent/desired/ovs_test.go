package desired_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/unit"
)

func chassis() desired.Chassis {
	return desired.Chassis{
		Node: "node-1", SystemID: "7c9e", Southbound: []string{"tcp:172.18.0.2:6642", "tcp:[fd00:18::2]:6642"},
		Tunnels: []netip.Addr{netip.MustParseAddr("172.18.0.11")}, Datapath: networkv1alpha1.DatapathNetdev,
	}
}

// externalIDs returns the pairs that a unit adds to the only Open_vSwitch row.
func externalIDs(u unit.Unit) map[string]string {
	pairs := map[string]string{}
	for _, m := range u.Members {
		if m.Parent == (unit.Ref{Table: "Open_vSwitch"}) && m.Column == "external_ids" {
			pairs[m.Element] = m.Value
		}
	}
	return pairs
}

// elements returns the elements that a unit adds to a column of sets, each after the parent's UUID.
func elements(u unit.Unit, table, column string) (found []string) {
	for _, m := range u.Members {
		if m.Parent.Table == table && m.Column == column {
			found = append(found, m.Parent.UUID+" "+m.Element)
		}
	}
	return found
}

func rowsOf[T any](u unit.Unit) (found []*T) {
	for _, row := range u.Rows {
		if model, ok := row.Model.(*T); ok {
			found = append(found, model)
		}
	}
	return found
}

// The uninstallation removes the existing settings, except for the names that others may have chosen.
func TestRegisteredIsAsItIs(t *testing.T) {
	have := map[string]string{
		"system-id": "7c9e", "hostname": "node-1", "ovn-remote": "tcp:192.0.2.1:6642", "ovn-bridge": "br-int",
		"ovn-bridge-mappings": "a:b",
	}
	want := map[string]string{"ovn-remote": "tcp:192.0.2.1:6642", "ovn-bridge": "br-int"}
	u := desired.Registered(have)
	if diff := cmp.Diff(want, externalIDs(u)); diff != "" || u.Key != desired.Registration(chassis()).Key {
		t.Errorf("unit %s, external_ids (-want +got):\n%s", u.Key, diff)
	}
}

func TestRegistration(t *testing.T) {
	want := map[string]string{
		"system-id": "7c9e", "hostname": "node-1",
		"ovn-remote":     "tcp:172.18.0.2:6642,tcp:[fd00:18::2]:6642",
		"ovn-encap-type": "geneve", "ovn-encap-ip": "172.18.0.11", "ovn-encap-ip-default": "", // absent
		"ovn-bridge": "br-int", "ovn-bridge-datapath-type": "netdev",
		"ovn-remote-probe-interval": "30000", "ovn-monitor-all": "true", "ovn-openflow-probe-interval": "0",
	}
	u := desired.Registration(chassis())
	if diff := cmp.Diff(want, externalIDs(u)); diff != "" {
		t.Errorf("external_ids (-want +got):\n%s", diff)
	}
	if len(u.Rows) != 0 || len(u.Members) != len(want) {
		t.Errorf("the registration depends on more than Open_vSwitch: %+v", u)
	}
}

func TestIntegrationBridgeIsMade(t *testing.T) {
	u := desired.IntegrationBridge(networkv1alpha1.DatapathNetdev, "")
	id, secure := desired.IntegrationBridgeUUID(""), vswitchdb.BridgeFailModeSecure
	port, iface := rowsOf[vswitchdb.Port](u)[0], rowsOf[vswitchdb.Interface](u)[0]
	want := []unit.Row{
		{Model: &vswitchdb.Bridge{
			UUID: id, Name: "br-int", DatapathType: "netdev", FailMode: &secure,
			OtherConfig: map[string]string{"disable-in-band": "true"},
		}},
		{Model: &vswitchdb.Port{UUID: port.UUID, Name: "br-int", Interfaces: []string{iface.UUID}}},
		{Model: &vswitchdb.Interface{UUID: iface.UUID, Name: "br-int", Type: "internal"}},
	}
	if diff := cmp.Diff(want, u.Rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{" " + id}, elements(u, "Open_vSwitch", "bridges")); diff != "" {
		t.Errorf("bridges (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{id + " " + port.UUID}, elements(u, "Bridge", "ports")); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

// The unit owns only the settings of a foreign bridge, and leaves the bridge in Open_vSwitch.bridges to its owner.
func TestIntegrationBridgeIsAdopted(t *testing.T) {
	const existing = "b7d7a6a0-0000-4000-8000-000000000001"
	u := desired.IntegrationBridge(networkv1alpha1.DatapathNetdev, existing)
	secure := vswitchdb.BridgeFailModeSecure
	want := []unit.Row{{
		Model: &vswitchdb.Bridge{
			UUID: existing, Name: "br-int", DatapathType: "netdev", FailMode: &secure,
			OtherConfig: map[string]string{"disable-in-band": "true"},
		},
		Columns: []string{"datapath_type", "fail_mode", "other_config"},
	}}
	if diff := cmp.Diff(want, u.Rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got := elements(u, "Open_vSwitch", "bridges"); got != nil {
		t.Errorf("bridges: %v", got)
	}
	if got := desired.IntegrationBridgeUUID(existing); got != existing {
		t.Errorf("the bridge is %s", got)
	}
}

func TestManagementPort(t *testing.T) {
	const bridge = "b7d7a6a0-0000-4000-8000-000000000001"
	spec := dualStackSpec()
	u := desired.ManagementPort("node-1", spec, 1442, bridge)
	if u.Key != "node/management-port" {
		t.Errorf("unit %s", u.Key)
	}
	port, mac, mtu := rowsOf[vswitchdb.Port](u)[0], "0a:58:0a:f4:01:02", 1442
	want := []*vswitchdb.Interface{{
		UUID: port.Interfaces[0], Name: "ovn-k8s-mp0", Type: "internal", MAC: &mac, MTURequest: &mtu,
		ExternalIDs: map[string]string{"iface-id": "k8s-node-1"},
	}}
	if diff := cmp.Diff(want, rowsOf[vswitchdb.Interface](u)); diff != "" {
		t.Errorf("Interface (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{bridge + " " + port.UUID}, elements(u, "Bridge", "ports")); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestManagementPortBeforeTheOperator(t *testing.T) {
	if u := desired.ManagementPort("node-1", networkv1alpha1.NodeNetworkSpec{}, 1442, "b"); !u.Empty() {
		t.Errorf("unit %v is not empty", u)
	}
	u := desired.ManagementPort("node-1", dualStackSpec(), 0, "b")
	if got := rowsOf[vswitchdb.Interface](u)[0].MTURequest; got != nil {
		t.Errorf("the unit requests MTU %d although the spec has none", *got)
	}
}

// The rows of different units have different UUIDs.
func TestUnitsOfANodeDoNotCollide(t *testing.T) {
	owner := map[string]unit.Key{} // by row UUID
	for _, u := range []unit.Unit{
		desired.Registration(chassis()),
		desired.IntegrationBridge(networkv1alpha1.DatapathNetdev, ""),
		desired.ManagementPort("node-1", dualStackSpec(), 1442, desired.IntegrationBridgeUUID("")),
		desired.AttachmentUnit(attachment(), "b", nil),
		desired.AttachmentUnit(second(), "b", nil),
	} {
		for _, id := range rowUUIDs(u) {
			if other, taken := owner[id]; taken {
				t.Errorf("both %s and %s have row %s", other, u.Key, id)
			}
			owner[id] = u.Key
		}
	}
	if got := len(slices.Collect(maps.Keys(owner))); got != 3+2+2+2 {
		t.Errorf("%d rows", got)
	}
}

func rowUUIDs(u unit.Unit) (found []string) {
	for _, row := range u.Rows {
		switch m := row.Model.(type) {
		case *vswitchdb.Bridge:
			found = append(found, m.UUID)
		case *vswitchdb.Port:
			found = append(found, m.UUID)
		case *vswitchdb.Interface:
			found = append(found, m.UUID)
		}
	}
	return found
}

func TestRemotesOfRelays(t *testing.T) {
	database := []string{"ssl:192.0.2.1:6642"}
	for name, c := range map[string]struct {
		relays             []networkv1alpha1.IP
		controller, reader []string
	}{
		"without relays": {nil, database, database},
		"two relays": {[]networkv1alpha1.IP{"192.0.2.7", "2001:db8::7"},
			[]string{"ssl:192.0.2.7:16644", "ssl:[2001:db8::7]:16644"}, []string{"ssl:192.0.2.7:16645", "ssl:[2001:db8::7]:16645"}},
		"no address": {[]networkv1alpha1.IP{"nonsense"}, database, database},
	} {
		if have := desired.ControllerRemotes(networkv1alpha1.NodeNetworkSpec{Relays: c.relays}, database); !slices.Equal(have, c.controller) {
			t.Errorf("%s: ovn-controller's are %q, want %q", name, have, c.controller)
		}
		if have := desired.ReaderRemotes(networkv1alpha1.NodeNetworkSpec{Relays: c.relays}, database); !slices.Equal(have, c.reader) {
			t.Errorf("%s: the agent's are %q, want %q", name, have, c.reader)
		}
	}
}
