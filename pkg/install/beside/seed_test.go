package beside

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/wire"
)

// table decodes rows from wire format.
func table(t *testing.T, rows ...string) []wire.Row {
	t.Helper()
	var all []wire.Row
	for _, text := range rows {
		var r wire.Row
		if err := wire.Decode([]byte(text), &r); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all = append(all, r)
	}
	return all
}

// summary renders operations, one per line, sorted.
func summary(t *testing.T, operations []wire.Operation) string {
	t.Helper()
	var lines []string
	for _, o := range operations {
		text, err := json.Marshal(o["row"])
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", o["op"], o["table"], text))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func inserted(operations []wire.Operation, table, column string) []string {
	var found []string
	for _, o := range operations {
		if o["op"] == "insert" && o["table"] == table {
			found = append(found, o["row"].(wire.Row).Text(column))
		}
	}
	slices.Sort(found)
	return found
}

func oldSouthbound(t *testing.T) wire.Snapshot {
	return wire.Snapshot{
		"SB_Global":  table(t, `{"_uuid":["uuid","g"],"_version":["uuid","v"],"connections":["uuid","k"],"nb_cfg":7}`),
		"Connection": table(t, `{"_uuid":["uuid","k"],"target":"ptcp:6642"}`),
		"Chassis": table(t,
			`{"_uuid":["uuid","c1"],"name":"n1","encaps":["uuid","e1"],"other_config":["map",[["ovn-monitor-all","true"]]]}`,
			`{"_uuid":["uuid","c9"],"name":"old-n2","encaps":["set",[["uuid","e9"]]]}`),
		"Encap": table(t,
			`{"_uuid":["uuid","e1"],"chassis_name":"n1","type":"geneve","ip":"192.0.2.1"}`,
			`{"_uuid":["uuid","e9"],"chassis_name":"old-n2","type":"geneve","ip":"192.0.2.2"}`),
		"Chassis_Private": table(t,
			`{"_uuid":["uuid","p1"],"name":"n1","nb_cfg":7}`,
			`{"_uuid":["uuid","p9"],"name":"old-n2","nb_cfg":3}`),
	}
}

var nodes = []Chassis{
	{Name: "n1", Hostname: "node-1", EncapType: "geneve", EncapIP: "192.0.2.1"},
	{Name: "n2", Hostname: "node-2", EncapType: "geneve", EncapIP: "192.0.2.2"},
}

// A reinstalled node has another system-id at the same tunnel end. The server would refuse both rows.
func TestChassisOfOldDatabaseAndNodeNetworks(t *testing.T) {
	operations, skipped := ChassisRows(oldSouthbound(t), nodes)
	if !slices.Equal(skipped, []string{"old-n2"}) {
		t.Errorf("skipped: %v", skipped)
	}
	for table, want := range map[string][]string{"Chassis": {"n1", "n2"}, "Chassis_Private": {"n1", "n2"}} {
		if got := inserted(operations, table, "name"); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", table, got, want)
		}
	}
	if got := inserted(operations, "Encap", "ip"); !slices.Equal(got, []string{"192.0.2.1", "192.0.2.2"}) {
		t.Errorf("tunnel ends: %v", got)
	}
	text := summary(t, operations)
	for _, want := range []string{
		`"ovn-monitor-all","true"`, `insert Connection {"target":"ptcp:6642"}`, `insert SB_Global {"connections":["uuid","k"],"nb_cfg":7}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s was not copied:\n%s", want, text)
		}
	}
	for _, o := range operations {
		if o["table"] == "Chassis" && o["row"].(wire.Row).Text("name") == "n1" && o["uuid"] != "c1" {
			t.Errorf("n1 has another UUID: %v", o["uuid"])
		}
	}
}

func TestChassisWithoutAnOldDatabase(t *testing.T) {
	operations, _ := ChassisRows(nil, nodes)
	if got := inserted(operations, "Chassis", "hostname"); !slices.Equal(got, []string{"node-1", "node-2"}) {
		t.Errorf("chassis: %v", got)
	}
	if got := len(inserted(operations, "SB_Global", "")); got != 1 {
		t.Errorf("%d global rows", got)
	}
}

func computed(t *testing.T) wire.Snapshot {
	return wire.Snapshot{
		"Chassis": table(t, `{"_uuid":["uuid","c1"],"name":"n1"}`, `{"_uuid":["uuid","c2"],"name":"n2"}`),
		"Datapath_Binding": table(t,
			`{"_uuid":["uuid","new-d"],"tunnel_key":65537,"external_ids":["map",[["logical-switch","s"],["name","n1"]]]}`),
		"Port_Binding": table(t,
			`{"_uuid":["uuid","a"],"logical_port":"bound","type":"","tunnel_key":16,"options":["map",[["requested-chassis","n1"]]]}`,
			`{"_uuid":["uuid","b"],"logical_port":"unbound","type":"","tunnel_key":17,"options":["map",[["requested-chassis","n1"]]]}`,
			`{"_uuid":["uuid","c"],"logical_port":"late","type":"","tunnel_key":18,"options":["map",[["requested-chassis","n2"]]]}`,
			`{"_uuid":["uuid","d"],"logical_port":"patch","type":"patch","tunnel_key":1,"options":["map",[["peer","x"]]]}`,
			`{"_uuid":["uuid","e"],"logical_port":"nowhere","type":"","tunnel_key":19,"options":["map",[["requested-chassis","n7"]]]}`),
	}
}

func TestBindingsAreKept(t *testing.T) {
	before := wire.Snapshot{"Port_Binding": table(t,
		`{"logical_port":"bound","chassis":["uuid","c1"],"up":true,"encap":["set",[]],"datapath":["uuid","old-d"]}`,
		`{"logical_port":"unbound","chassis":["set",[]],"up":false}`,
		`{"logical_port":"nowhere","chassis":["uuid","gone"],"up":true}`)}
	operations, bound := Bindings(computed(t), before, true)
	if want := `update Port_Binding {"chassis":["uuid","c1"],"encap":["set",[]],"up":true}`; summary(t, operations) != want || bound != 1 {
		t.Errorf("%d bound:\n%s\nwant\n%s", bound, summary(t, operations), want)
	}
}

// A port without a binding would lose what other chassis send to it. A port that is bound too early is released by
// its chassis.
func TestBindingsWithoutAnOldDatabase(t *testing.T) {
	operations, bound := Bindings(computed(t), nil, false)
	want := strings.Join([]string{
		`update Port_Binding {"chassis":["uuid","c1"],"up":true}`,
		`update Port_Binding {"chassis":["uuid","c1"],"up":true}`,
		`update Port_Binding {"chassis":["uuid","c2"],"up":true}`,
	}, "\n")
	if summary(t, operations) != want || bound != 3 {
		t.Errorf("%d bound:\n%s", bound, summary(t, operations))
	}
}

func TestLearnedAddressesFollowTheirDatapath(t *testing.T) {
	before := wire.Snapshot{
		"Datapath_Binding": table(t, `{"_uuid":["uuid","old-d"],"tunnel_key":65537}`, `{"_uuid":["uuid","gone"],"tunnel_key":9}`),
		"MAC_Binding": table(t,
			`{"_uuid":["uuid","m"],"datapath":["uuid","old-d"],"logical_port":"bound","ip":"192.0.2.9","mac":"0a:58:00:00:00:09"}`,
			`{"_uuid":["uuid","n"],"datapath":["uuid","gone"],"logical_port":"bound","ip":"192.0.2.8"}`,
			`{"_uuid":["uuid","o"],"datapath":["uuid","old-d"],"logical_port":"deleted","ip":"192.0.2.7"}`),
		"FDB": table(t,
			`{"_uuid":["uuid","f"],"dp_key":65537,"port_key":16,"mac":"0a:58:00:00:00:01"}`,
			`{"dp_key":9,"port_key":1,"mac":"0a:58:00:00:00:02"}`),
	}
	want := `insert FDB {"dp_key":65537,"mac":"0a:58:00:00:00:01","port_key":16}` + "\n" +
		`insert MAC_Binding {"datapath":["uuid","new-d"],"ip":"192.0.2.9","logical_port":"bound","mac":"0a:58:00:00:00:09"}`
	if got := summary(t, Learned(computed(t), before)); got != want {
		t.Errorf("copied:\n%s\nwant\n%s", got, want)
	}
}

func TestChangedKeysAreNamed(t *testing.T) {
	before := computed(t)
	if changed := ChangedKeys(computed(t), before); len(changed) != 0 {
		t.Errorf("equal databases differ: %v", changed)
	}
	before["Port_Binding"][0]["tunnel_key"] = json.Number("99")
	before["Datapath_Binding"][0]["tunnel_key"] = json.Number("5")
	want := []string{"datapath n1 (s): 65537, was 5", "port bound: 16, was 99"}
	if changed := ChangedKeys(computed(t), before); !slices.Equal(changed, want) {
		t.Errorf("changed: %q, want %q", changed, want)
	}
}
