package beside

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-network/weft/pkg/ovn/wire"
)

// Chassis describes a node's chassis according to its NodeNetwork.
type Chassis struct {
	Name, Hostname, EncapType, EncapIP string
	// Alive means that the node's ovn-controller is expected to follow the new database.
	Alive bool
}

// SeedTables are the tables of the old southbound database from which rows are copied. They hold what ovn-controller
// wrote, what it learned from the network, and what the administrator configured.
var SeedTables = []string{
	"SB_Global", "Connection", "SSL", "Chassis", "Chassis_Private", "Encap", "Datapath_Binding", "Port_Binding", "MAC_Binding", "FDB",
}

// ChassisRows returns the operations that insert the new database's first rows before ovn-northd sees it: its global
// row, and every chassis with its tunnel ends. Chassis of the old database are copied, UUIDs included, as
// ovn-controller wrote them. Other chassis are created from their NodeNetworks, and ovn-controller completes them.
// skipped are old chassis whose tunnel end now belongs to another chassis.
func ChassisRows(before wire.Snapshot, chassis []Chassis) (operations []wire.Operation, skipped []string) {
	operations = globalRows(before)
	stale := staleChassis(before, chassis)
	known := map[string]bool{}
	encaps := before.ByUUID("Encap")
	for _, c := range before["Chassis"] {
		name := c.Text("name")
		if stale[name] {
			skipped = append(skipped, name)
			continue
		}
		known[name] = true
		operations = append(operations, wire.Insert("Chassis", c.UUID(), c.Content()))
		for _, id := range c.References("encaps") {
			operations = append(operations, wire.Insert("Encap", id, encaps[id].Content()))
		}
	}
	for _, p := range before["Chassis_Private"] {
		if known[p.Text("name")] {
			operations = append(operations, wire.Insert("Chassis_Private", p.UUID(), p.Content()))
		}
	}
	for _, c := range chassis {
		if !known[c.Name] {
			operations = append(operations, c.rows()...)
		}
	}
	return operations, skipped
}

// globalRows returns the operations that insert the global row and the administrator's listeners and certificates.
func globalRows(before wire.Snapshot) []wire.Operation {
	if len(before["SB_Global"]) == 0 {
		return []wire.Operation{wire.Insert("SB_Global", "", wire.Row{})}
	}
	var operations []wire.Operation
	for _, table := range []string{"Connection", "SSL", "SB_Global"} {
		for _, r := range before[table] {
			operations = append(operations, wire.Insert(table, r.UUID(), r.Content()))
		}
	}
	return operations
}

// staleChassis returns the names of old chassis whose tunnel end now belongs to the chassis of another NodeNetwork,
// because their node was reinstalled. The server refuses two rows with the same tunnel end.
func staleChassis(before wire.Snapshot, chassis []Chassis) map[string]bool {
	owner := map[string]string{} // type and address of a tunnel end -> chassis
	names := map[string]bool{}
	for _, c := range chassis {
		owner[c.EncapType+" "+c.EncapIP], names[c.Name] = c.Name, true
	}
	stale := map[string]bool{}
	for _, e := range before["Encap"] {
		name := e.Text("chassis_name")
		if now := owner[e.Text("type")+" "+e.Text("ip")]; now != "" && now != name && !names[name] {
			stale[name] = true
		}
	}
	return stale
}

// rows returns the operations that insert a chassis as ovn-controller creates it.
func (c Chassis) rows() []wire.Operation {
	chassis, encap := uuid.NewString(), uuid.NewString()
	return []wire.Operation{
		wire.Insert("Encap", encap, wire.Row{"chassis_name": c.Name, "type": c.EncapType, "ip": c.EncapIP,
			"options": pairsOf(map[string]string{"csum": "true"})}),
		wire.Insert("Chassis", chassis, wire.Row{"name": c.Name, "hostname": c.Hostname, "encaps": wire.UUIDOf(encap)}),
		wire.Insert("Chassis_Private", "", wire.Row{"name": c.Name, "chassis": wire.UUIDOf(chassis)}),
	}
}

// pairsOf returns a map in wire format.
func pairsOf(m map[string]string) any {
	list := []any{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, []any{k, m[k]})
	}
	return []any{"map", list}
}

// boundColumns are the columns of Port_Binding that ovn-controller writes. They are copied unchanged, because Chassis
// and Encap rows keep their UUIDs.
var boundColumns = []string{"chassis", "encap", "additional_chassis", "additional_encap", "up", "virtual_parent"}

// Bindings returns the operations that bind the new database's ports as in the old database, and the number of bound
// ports. Without an old database (known is false), each port is bound to the chassis that it requests. If the port
// does not exist there yet, that chassis releases it, which is harmless. If it exists but were not bound, it would
// lose the packets from other chassis.
func Bindings(fresh, before wire.Snapshot, known bool) (operations []wire.Operation, bound int) {
	chassis := map[string]string{} // name -> UUID
	has := map[string]bool{}       // UUID
	for _, c := range fresh["Chassis"] {
		chassis[c.Text("name")], has[c.UUID()] = c.UUID(), true
	}
	old := map[string]wire.Row{} // logical port -> binding
	for _, b := range before["Port_Binding"] {
		old[b.Text("logical_port")] = b
	}
	for _, b := range fresh["Port_Binding"] {
		want := wire.Row{}
		if was, ok := old[b.Text("logical_port")]; ok {
			if has[was.Reference("chassis")] {
				want = was.Pick(boundColumns...)
			}
		} else if at := chassis[requestedChassis(b)]; !known && at != "" {
			want = wire.Row{"chassis": wire.UUIDOf(at), "up": true}
		}
		if len(want) > 0 {
			operations = append(operations, wire.Update("Port_Binding", wire.Is("_uuid", wire.UUIDOf(b.UUID())), want))
			bound++
		}
	}
	return operations, bound
}

// requestedChassis returns the name of the chassis that a binding requests. Only VIFs and ports of gateway routers
// request a chassis.
func requestedChassis(binding wire.Row) string {
	options := binding.Pairs("options")
	switch binding.Text("type") {
	case "", "l3gateway":
		return cmp.Or(options["requested-chassis"], options["l3gateway-chassis"])
	}
	return ""
}

// Learned returns the operations that copy what ovn-controllers learned: MAC addresses of neighbours, and of hosts
// behind ports.
func Learned(fresh, before wire.Snapshot) []wire.Operation {
	var operations []wire.Operation
	ports := map[string]bool{}
	for _, b := range fresh["Port_Binding"] {
		ports[b.Text("logical_port")] = true
	}
	datapaths := map[int64]string{} // tunnel key -> UUID
	for _, d := range fresh["Datapath_Binding"] {
		datapaths[d.Number("tunnel_key")] = d.UUID()
	}
	old := before.ByUUID("Datapath_Binding")
	for _, m := range before["MAC_Binding"] {
		datapath := datapaths[old[m.Reference("datapath")].Number("tunnel_key")]
		if datapath != "" && ports[m.Text("logical_port")] {
			r := m.Content()
			r["datapath"] = wire.UUIDOf(datapath)
			operations = append(operations, wire.Insert("MAC_Binding", "", r))
		}
	}
	for _, f := range before["FDB"] {
		if datapaths[f.Number("dp_key")] != "" {
			operations = append(operations, wire.Insert("FDB", "", f.Content()))
		}
	}
	return operations
}

// ChangedKeys lists the datapaths and ports whose tunnel key changed. A chassis with the new key drops the packets of
// a chassis that still sends the old one.
func ChangedKeys(fresh, before wire.Snapshot) []string {
	was := Keys(before)
	var changed []string
	for name, key := range Keys(fresh) {
		if old, ok := was[name]; ok && old != key {
			changed = append(changed, fmt.Sprintf("%s: %d, was %d", name, key, old))
		}
	}
	slices.Sort(changed)
	return changed
}

// Keys returns the tunnel keys of a southbound database by datapath and port.
func Keys(s wire.Snapshot) map[string]int64 {
	found := map[string]int64{}
	for _, d := range s["Datapath_Binding"] {
		external := d.Pairs("external_ids")
		// The name is for people; the UUID of the northbound row makes the key unique.
		name := fmt.Sprintf("datapath %s (%s)", external["name"], cmp.Or(external["logical-switch"], external["logical-router"]))
		found[name] = d.Number("tunnel_key")
	}
	for _, b := range s["Port_Binding"] {
		found["port "+b.Text("logical_port")] = b.Number("tunnel_key")
	}
	return found
}
