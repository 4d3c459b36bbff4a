package rebuild

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// seedTables are the tables of the old southbound database from which rows are copied. They hold what ovn-controller
// wrote, what it learned from the network, and what the administrator configured.
var seedTables = []string{
	"SB_Global", "Connection", "SSL", "Chassis", "Chassis_Private", "Encap", "Datapath_Binding", "Port_Binding", "MAC_Binding", "FDB",
}

// chassisRows returns the operations that insert the new database's first rows before ovn-northd sees it: its global
// row, and every chassis with its tunnel ends. Chassis of the old database are copied, UUIDs included, as
// ovn-controller wrote them. Other chassis are created from their NodeNetworks, and ovn-controller completes them.
// skipped are old chassis whose tunnel end now belongs to another chassis.
func chassisRows(before snapshot, chassis []Chassis) (operations []operation, skipped []string) {
	operations = globalRows(before)
	stale := staleChassis(before, chassis)
	known := map[string]bool{}
	encaps := before.byUUID("Encap")
	for _, c := range before["Chassis"] {
		name := c.text("name")
		if stale[name] {
			skipped = append(skipped, name)
			continue
		}
		known[name] = true
		operations = append(operations, insert("Chassis", c.uuid(), c.content()))
		for _, id := range c.references("encaps") {
			operations = append(operations, insert("Encap", id, encaps[id].content()))
		}
	}
	for _, p := range before["Chassis_Private"] {
		if known[p.text("name")] {
			operations = append(operations, insert("Chassis_Private", p.uuid(), p.content()))
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
func globalRows(before snapshot) []operation {
	if len(before["SB_Global"]) == 0 {
		return []operation{insert("SB_Global", "", row{})}
	}
	var operations []operation
	for _, table := range []string{"Connection", "SSL", "SB_Global"} {
		for _, r := range before[table] {
			operations = append(operations, insert(table, r.uuid(), r.content()))
		}
	}
	return operations
}

// staleChassis returns the names of old chassis whose tunnel end now belongs to the chassis of another NodeNetwork,
// because their node was reinstalled. The server refuses two rows with the same tunnel end.
func staleChassis(before snapshot, chassis []Chassis) map[string]bool {
	owner := map[string]string{} // type and address of a tunnel end -> chassis
	names := map[string]bool{}
	for _, c := range chassis {
		owner[c.EncapType+" "+c.EncapIP], names[c.Name] = c.Name, true
	}
	stale := map[string]bool{}
	for _, e := range before["Encap"] {
		name := e.text("chassis_name")
		if now := owner[e.text("type")+" "+e.text("ip")]; now != "" && now != name && !names[name] {
			stale[name] = true
		}
	}
	return stale
}

// rows returns the operations that insert a chassis as ovn-controller creates it.
func (c Chassis) rows() []operation {
	chassis, encap := uuid.NewString(), uuid.NewString()
	return []operation{
		insert("Encap", encap, row{"chassis_name": c.Name, "type": c.EncapType, "ip": c.EncapIP,
			"options": pairsOf(map[string]string{"csum": "true"})}),
		insert("Chassis", chassis, row{"name": c.Name, "hostname": c.Hostname, "encaps": uuidOf(encap)}),
		insert("Chassis_Private", "", row{"name": c.Name, "chassis": uuidOf(chassis)}),
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

// bindings returns the operations that bind the new database's ports as in the old database, and the number of bound
// ports. Without an old database (known is false), each port is bound to the chassis that it requests. If the port
// does not exist there yet, that chassis releases it, which is harmless. If it exists but were not bound, it would
// lose the packets from other chassis.
func bindings(fresh, before snapshot, known bool) (operations []operation, bound int) {
	chassis := map[string]string{} // name -> UUID
	has := map[string]bool{}       // UUID
	for _, c := range fresh["Chassis"] {
		chassis[c.text("name")], has[c.uuid()] = c.uuid(), true
	}
	old := map[string]row{} // logical port -> binding
	for _, b := range before["Port_Binding"] {
		old[b.text("logical_port")] = b
	}
	for _, b := range fresh["Port_Binding"] {
		want := row{}
		if was, ok := old[b.text("logical_port")]; ok {
			if has[was.reference("chassis")] {
				want = was.pick(boundColumns...)
			}
		} else if at := chassis[requestedChassis(b)]; !known && at != "" {
			want = row{"chassis": uuidOf(at), "up": true}
		}
		if len(want) > 0 {
			operations = append(operations, update("Port_Binding", is("_uuid", uuidOf(b.uuid())), want))
			bound++
		}
	}
	return operations, bound
}

// requestedChassis returns the name of the chassis that a binding requests. Only VIFs and ports of gateway routers
// request a chassis.
func requestedChassis(binding row) string {
	options := binding.pairs("options")
	switch binding.text("type") {
	case "", "l3gateway":
		return cmp.Or(options["requested-chassis"], options["l3gateway-chassis"])
	}
	return ""
}

// learned returns the operations that copy what ovn-controllers learned: MAC addresses of neighbours, and of hosts
// behind ports.
func learned(fresh, before snapshot) []operation {
	var operations []operation
	ports := map[string]bool{}
	for _, b := range fresh["Port_Binding"] {
		ports[b.text("logical_port")] = true
	}
	datapaths := map[int64]string{} // tunnel key -> UUID
	for _, d := range fresh["Datapath_Binding"] {
		datapaths[d.number("tunnel_key")] = d.uuid()
	}
	old := before.byUUID("Datapath_Binding")
	for _, m := range before["MAC_Binding"] {
		datapath := datapaths[old[m.reference("datapath")].number("tunnel_key")]
		if datapath != "" && ports[m.text("logical_port")] {
			r := m.content()
			r["datapath"] = uuidOf(datapath)
			operations = append(operations, insert("MAC_Binding", "", r))
		}
	}
	for _, f := range before["FDB"] {
		if datapaths[f.number("dp_key")] != "" {
			operations = append(operations, insert("FDB", "", f.content()))
		}
	}
	return operations
}

// changedKeys lists the datapaths and ports whose tunnel key changed. A chassis with the new key drops the packets of
// a chassis that still sends the old one.
func changedKeys(fresh, before snapshot) []string {
	was := keys(before)
	var changed []string
	for name, key := range keys(fresh) {
		if old, ok := was[name]; ok && old != key {
			changed = append(changed, fmt.Sprintf("%s: %d, was %d", name, key, old))
		}
	}
	slices.Sort(changed)
	return changed
}

// keys returns the tunnel keys of a southbound database by datapath and port.
func keys(s snapshot) map[string]int64 {
	found := map[string]int64{}
	for _, d := range s["Datapath_Binding"] {
		external := d.pairs("external_ids")
		// The name is for people; the UUID of the northbound row makes the key unique.
		name := fmt.Sprintf("datapath %s (%s)", external["name"], cmp.Or(external["logical-switch"], external["logical-router"]))
		found[name] = d.number("tunnel_key")
	}
	for _, b := range s["Port_Binding"] {
		found["port "+b.text("logical_port")] = b.number("tunnel_key")
	}
	return found
}
