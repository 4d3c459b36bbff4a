package histories

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/unit"
)

// vandalism lists the foreign changes to Weft's rows.
var vandalism = []string{"delete-port", "delete-port", "delete-switch", "delete-router", "options", "forge",
	"addresses", "disown", "copy", "stray", "rename", "default", "tag"}

type operation map[string]any

func where(uuid string) []any { return []any{[]any{"_uuid", "==", []any{"uuid", uuid}}} }

func ovsMap(pairs ...[2]string) []any {
	list := make([]any, 0, len(pairs))
	for _, p := range pairs {
		list = append(list, []any{p[0], p[1]})
	}
	return []any{"map", list}
}

func ownedBy(owner string) []any { return ovsMap([2]string{unit.OwnerKey, owner}) }

// ownerOf returns the unit named by a row; empty for a foreign row.
func ownerOf(r row) string { return mapOf(r["external_ids"])[unit.OwnerKey] }

// pick chooses one of Weft's rows in a table.
func (w *world) pick(table string, n int) (id string, r row, ok bool) {
	rows, _ := w.mirror.snapshot()
	var ours []string
	for _, id := range slices.Sorted(maps.Keys(rows[table])) {
		if ownerOf(rows[table][id]) != "" {
			ours = append(ours, id)
		}
	}
	if len(ours) == 0 {
		return "", nil, false
	}
	id = ours[n%len(ours)]
	return id, rows[table][id], true
}

// spoiledTranslation is the address that a vandal writes into a translation.
const spoiledTranslation = "192.0.2.99"

// vandalise changes one of Weft's rows.
func (w *world) vandalise(what string, n int) error {
	if !w.serverUp {
		return nil
	}
	switch what {
	case "delete-switch", "rename", "copy", "disown":
		return w.vandaliseSwitch(what, n)
	case "delete-Port_Group", "delete-Address_Set", "delete-Meter", "priority", "match", "unlogged", "rate", "qos":
		return w.vandaliseFirewall(what, n)
	case "delete-balancer", "spoil-balancer":
		return w.vandaliseBalancer(what, n)
	case "delete-set":
		if id, _, ok := w.pick("Address_Set", n); ok {
			return w.mirror.transact(operation{"op": "delete", "table": "Address_Set", "where": where(id)})
		}
		return nil
	case "spoil-translation":
		if id, _, ok := w.pick("NAT", n); ok {
			return w.mirror.transact(operation{"op": "update", "table": "NAT", "where": where(id),
				"row": operation{"external_ip": spoiledTranslation}})
		}
		return nil
	case "delete-router":
		if id, _, ok := w.pick("Logical_Router", n); ok {
			return w.mirror.transact(operation{"op": "delete", "table": "Logical_Router", "where": where(id)})
		}
		return nil
	case "stray":
		owner := []string{"pod/a/nobody", "node/nobody"}[n%2]
		return w.mirror.transact(operation{"op": "insert", "table": "Logical_Switch",
			"row": operation{"name": "stray" + strconv.Itoa(n), "external_ids": ownedBy(owner)}})
	}
	id, r, ok := w.pick("Logical_Switch_Port", n)
	if !ok {
		return nil
	}
	if what == "addresses" {
		w.observer.spoil(id)
	}
	return w.mirror.transact(w.vandalisePort(what, n, id, r)...)
}

func (w *world) vandaliseSwitch(what string, n int) error {
	id, r, ok := w.pick("Logical_Switch", n)
	if !ok {
		return nil
	}
	switch what {
	case "rename":
		return w.mirror.transact(operation{"op": "update", "table": "Logical_Switch", "where": where(id),
			"row": operation{"name": "renamed"}})
	case "copy":
		return w.mirror.transact(operation{"op": "insert", "table": "Logical_Switch", "uuid": uuid.NewString(),
			"row": operation{"name": atoms(r["name"])[0], "external_ids": ownedBy(ownerOf(r))}})
	case "disown": // if its unit ends before the operator reverts this, the row has no owner
		w.disowned[id] = true
		return w.mirror.transact(operation{"op": "update", "table": "Logical_Switch", "where": where(id),
			"row": operation{"external_ids": ovsMap()}})
	}
	w.foreign.dropPorts(r)
	return w.mirror.transact(operation{"op": "delete", "table": "Logical_Switch", "where": where(id)})
}

// vandalisePort returns the operations that damage a port.
func (w *world) vandalisePort(what string, n int, id string, r row) []any {
	update := func(columns operation) []any {
		return []any{operation{"op": "update", "table": "Logical_Switch_Port", "where": where(id), "row": columns}}
	}
	options := mapOf(r["options"])
	switch what {
	case "delete-port":
		rows, _ := w.mirror.snapshot()
		var operations []any
		for parent, r := range rows["Logical_Switch"] {
			if slices.Contains(atoms(r["ports"]), id) {
				operations = append(operations, operation{"op": "mutate", "table": "Logical_Switch", "where": where(parent),
					"mutations": []any{[]any{"ports", "delete", []any{"uuid", id}}}})
			}
		}
		return operations
	case "options":
		return update(operation{"options": ovsMap()})
	case "forge":
		options["requested-chassis"], options["nat-addresses"] = "elsewhere", "router"
		return update(operation{"options": ovsMap(pairs(options)...)})
	case "addresses":
		return update(operation{"addresses": []any{"set", []any{fmt.Sprintf("0a:58:0a:f4:00:%02x 10.244.0.%d", n, 3+n)}}})
	case "default": // columns that Weft does not set
		return update(operation{"enabled": false, "type": "localport", "port_security": []any{"set", []any{}}})
	}
	return update(operation{"tag_request": 7, "parent_name": "somebody"})
}

func pairs(m map[string]string) [][2]string {
	var found [][2]string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		found = append(found, [2]string{k, m[k]})
	}
	return found
}

// foreignRows are rows that Weft must not change: table -> UUID -> row.
type foreignRows map[string]map[string]row

// foreigners are what foreign users keep in the database: their own rows, a switch with the name of a Weft switch,
// ports on Weft's join switch, and options and external IDs in NB_Global.
var foreigners = []string{"set", "switch", "namesake", "join-port", "global"}

func (w *world) addForeign(what string, n int) error {
	if !w.serverUp {
		return nil
	}
	name, id, port := fmt.Sprintf("foreign-%d", n), uuid.NewString(), uuid.NewString()
	var operations []any
	insert := func(table, id string, columns operation) {
		operations = append(operations, operation{"op": "insert", "table": table, "uuid": id, "row": columns})
	}
	switch what {
	case "set":
		insert("Address_Set", id, operation{"name": name, "addresses": []any{"set", []any{"10.0.0.1", "10.0.0.2"}}})
	case "switch":
		insert("Logical_Switch", id, operation{"name": name, "ports": []any{"set", []any{[]any{"uuid", port}}}})
		insert("Logical_Switch_Port", port, operation{"name": name})
	case "namesake":
		insert("Logical_Switch", id, operation{"name": fmt.Sprintf("n%d", n%nodeCount)})
	case "join-port":
		join, ok := w.joinSwitch()
		if !ok {
			return nil
		}
		insert("Logical_Switch_Port", port, operation{"name": name})
		operations = append(operations, operation{"op": "mutate", "table": "Logical_Switch", "where": where(join),
			"mutations": []any{[]any{"ports", "insert", []any{"uuid", port}}}})
	case "global":
		operations = append(operations, operation{"op": "mutate", "table": "NB_Global", "where": []any{}, "mutations": []any{
			[]any{"options", "insert", ovsMap([2]string{name, "1"})}, []any{"external_ids", "insert", ovsMap([2]string{name, "1"})}}})
	}
	if err := w.mirror.transact(operations...); err != nil {
		return nil // the name is taken
	}
	w.foreign.learn(w.mirror, id, port)
	return nil
}

// joinSwitch returns Weft's join switch if it exists and is Weft's. Its UUID identifies it: a foreign user can
// rename it, or create a copy, which is deleted with everything on it.
func (w *world) joinSwitch() (id string, ok bool) {
	id = unit.UUID("Logical_Switch", names.JoinSwitch)
	rows, _ := w.mirror.snapshot()
	return id, ownerOf(rows["Logical_Switch"][id]) != ""
}

// learn records the created rows as the server has them, and the foreign parts of NB_Global.
func (f foreignRows) learn(m *mirror, ids ...string) {
	rows, _ := m.snapshot() // a server sends the update before the reply to the transaction (RFC 7047 §4.1.6)
	for table, present := range rows {
		for _, id := range ids {
			if r, ok := present[id]; ok {
				f.put(table, id, r)
			}
		}
	}
	for id, r := range rows["NB_Global"] {
		f.put("NB_Global", id, r)
	}
}

func (f foreignRows) put(table, id string, r row) {
	if f[table] == nil {
		f[table] = map[string]row{}
	}
	f[table][id] = r
}

// hasNamesake reports whether a foreign switch has a name that a node's switch may have.
func (f foreignRows) hasNamesake() bool {
	for _, r := range f["Logical_Switch"] {
		if !strings.HasPrefix(atoms(r["name"])[0], "foreign") {
			return true
		}
	}
	return false
}

// dropPorts removes the foreign ports on a deleted switch, which are deleted with it.
func (f foreignRows) dropPorts(deleted row) {
	for _, id := range atoms(deleted["ports"]) {
		delete(f["Logical_Switch_Port"], id)
	}
}

// atoms returns a column's value as a sorted list of texts: one for a scalar, the elements of a set, "key=value" for
// a map.
func atoms(value json.RawMessage) []string {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return nil
	}
	list := flatten(v)
	slices.Sort(list)
	return list
}

func flatten(v any) []string {
	pair, ok := v.([]any)
	if !ok {
		return []string{fmt.Sprint(v)}
	}
	switch pair[0] {
	case "uuid":
		return []string{fmt.Sprint(pair[1])}
	case "set":
		list := []string{}
		for _, e := range pair[1].([]any) {
			list = append(list, flatten(e)...)
		}
		return list
	case "map":
		list := []string{}
		for _, e := range pair[1].([]any) {
			kv := e.([]any)
			list = append(list, flatten(kv[0])[0]+"="+flatten(kv[1])[0])
		}
		return list
	}
	return nil
}

// mapOf returns the pairs of a map column of strings.
func mapOf(value json.RawMessage) map[string]string {
	var v []any
	found := map[string]string{}
	if json.Unmarshal(value, &v) != nil || len(v) != 2 {
		return found
	}
	list, _ := v[1].([]any)
	for _, e := range list {
		if kv, ok := e.([]any); ok && len(kv) == 2 {
			found[fmt.Sprint(kv[0])] = fmt.Sprint(kv[1])
		}
	}
	return found
}
