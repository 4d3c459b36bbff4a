package rebuild

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// seedTables are the tables of the old southbound database from which rows are taken over: what ovn-controller wrote, what the
// network taught it, and what the administrator set.
var seedTables = []string{"SB_Global", "Connection", "SSL", "Chassis", "Chassis_Private", "Encap", "Datapath_Binding", "Port_Binding", "MAC_Binding", "FDB"}

// chassisRows are the operations that make the new database's first rows, before ovn-northd sees it: its global row, and every
// chassis with its tunnel ends. What the old database knows is copied, UUIDs included, as ovn-controller wrote it; a chassis that it
// does not know is made from its NodeNetwork, and ovn-controller completes it. skipped are old chassis whose tunnel end has
// another chassis now.
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

// globalRows are the global row with what is the administrator's in it: listeners and certificates.
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

// staleChassis are names of old chassis that hold a tunnel end which a NodeNetwork gives to another: a node that was made anew. Two
// rows of one tunnel end are refused.
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

// rows are a chassis as ovn-controller begins it.
func (c Chassis) rows() []operation {
	chassis, encap := uuid.NewString(), uuid.NewString()
	return []operation{
		insert("Encap", encap, row{"chassis_name": c.Name, "type": c.EncapType, "ip": c.EncapIP, "options": pairsOf(map[string]string{"csum": "true"})}),
		insert("Chassis", chassis, row{"name": c.Name, "hostname": c.Hostname, "encaps": uuidOf(encap)}),
		insert("Chassis_Private", "", row{"name": c.Name, "chassis": uuidOf(chassis)}),
	}
}

// pairsOf is a map on the wire.
func pairsOf(m map[string]string) any {
	list := []any{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, []any{k, m[k]})
	}
	return []any{"map", list}
}

// boundColumns are the columns of Port_Binding that ovn-controller writes. Chassis and Encap rows keep their UUIDs, so they are
// copied as they are.
var boundColumns = []string{"chassis", "encap", "additional_chassis", "additional_encap", "up", "virtual_parent"}

// bindings are the operations that bind the new database's ports where the old one's are, and the number of ports that are bound.
// Without an old database (known is false), a port is bound to the chassis that it asks for: one that is not there yet is
// let go by that chassis, which is harmless, while one that is there and not bound would lose its packets from the other chassis.
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
		} else if at := chassis[asksFor(b)]; !known && at != "" {
			want = row{"chassis": uuidOf(at), "up": true}
		}
		if len(want) > 0 {
			operations = append(operations, update("Port_Binding", is("_uuid", uuidOf(b.uuid())), want))
			bound++
		}
	}
	return operations, bound
}

// asksFor is the name of the chassis that a binding asks for: a VIF, or a gateway router's port.
func asksFor(binding row) string {
	options := binding.pairs("options")
	switch binding.text("type") {
	case "", "l3gateway":
		return cmp.Or(options["requested-chassis"], options["l3gateway-chassis"])
	}
	return ""
}

// learned are the operations that take over what ovn-controllers learned: MAC addresses of neighbours, and of ports that forward for
// others.
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

// changedKeys lists what has another tunnel key than before. A chassis that sees the new key while another still sends the old one
// drops its packets.
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

// keys are the tunnel keys of a southbound database by what they belong to.
func keys(s snapshot) map[string]int64 {
	found := map[string]int64{}
	for _, d := range s["Datapath_Binding"] {
		external := d.pairs("external_ids")
		// The name tells people which one; the UUID of the northbound row tells apart.
		found[fmt.Sprintf("datapath %s (%s)", external["name"], cmp.Or(external["logical-switch"], external["logical-router"]))] = d.number("tunnel_key")
	}
	for _, b := range s["Port_Binding"] {
		found["port "+b.text("logical_port")] = b.number("tunnel_key")
	}
	return found
}
