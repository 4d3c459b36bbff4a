package ovndb

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/weft-network/weft/pkg/unit"
)

// desired is the set of all units and what they want together.
type desired struct {
	units map[unit.Key]*unitState
	rows  map[string]unit.Key              // row UUID -> the unit that wants it
	elems map[member][]wish                // element -> units that want it and the value they give it; most have one, for which a map would be large
	below map[string]map[unit.Key]struct{} // parent row UUID -> units with memberships in it
	keys  map[TunnelKey]string             // requested tunnel key -> row UUID
	owns  map[string]TunnelKey             // row UUID -> requested tunnel key
	named map[rowName]unit.Key             // name of a row in a table with Named -> the unit that wants it

	complete bool // the units of all objects are here
}

// wish is a unit that wants an element, and the value that it gives it.
type wish struct {
	unit  unit.Key
	value string
}

// rowName is a name within its table.
type rowName struct{ table, name string }

// unitState is one unit between two commits.
type unitState struct {
	unit    unit.Unit
	stale   map[member]struct{} // memberships it had and may have left behind
	gone    map[string]string   // UUID -> table of rows it had; tables without external_ids have no other record of them
	parked  bool                // it builds on an absent row: until that is there, nothing of the unit shall exist
	waiters []chan error
	last    error  // outcome of the last plan
	version uint64 // counts how often the unit was replaced
	clean   bool   // this version is committed: what differs from now on was changed by somebody else
	repairs repairs
}

func newDesired() *desired {
	return &desired{
		units: map[unit.Key]*unitState{}, rows: map[string]unit.Key{}, elems: map[member][]wish{},
		below: map[string]map[unit.Key]struct{}{}, keys: map[TunnelKey]string{}, owns: map[string]TunnelKey{},
		named: map[rowName]unit.Key{},
	}
}

// wantsRow reports whether a unit that is not parked wants the row.
func (d *desired) wantsRow(uuid string) bool {
	owner, ok := d.rows[uuid]
	return ok && !d.units[owner].parked
}

func (d *desired) ownsRow(key unit.Key, uuid string) bool { return uuid != "" && d.rows[uuid] == key }

// wants reports whether a unit that is not parked wants the element.
func (d *desired) wants(m member) bool {
	return slices.ContainsFunc(d.elems[m], func(w wish) bool { return !d.units[w.unit].parked })
}

// check refuses a unit that collides with another one: nothing of it is taken over then.
func (d *desired) check(schema *Schema, u unit.Unit) error {
	for _, row := range u.Rows {
		table, err := schema.tableOf(row.Model)
		if err != nil {
			return err
		}
		id := uuidOf(row.Model)
		if owner, ok := d.rows[id]; ok && owner != u.Key {
			return fmt.Errorf("row %s of %s already belongs to unit %s", id, table, owner)
		}
		if err := d.checkTunnelKey(schema, u, table, row); err != nil {
			return err
		}
	}
	return nil
}

// checkTunnelKey keeps northd alive: one key out of range stops it for the whole network, and a key in use would be
// replaced without a word.
func (d *desired) checkTunnelKey(schema *Schema, u unit.Unit, table string, row unit.Row) error {
	key, ok, err := rowTunnelKey(schema, u, table, row)
	if err != nil || !ok {
		return err
	}
	other, used := d.keys[key]
	if used && other != uuidOf(row.Model) && d.rows[other] != u.Key {
		return fmt.Errorf("tunnel key %d of %s is already requested by unit %s", key.Key, key.Scope, d.rows[other])
	}
	return nil
}

// rowTunnelKey returns the key that a row requests; the scope of a port is its switch or router.
func rowTunnelKey(schema *Schema, u unit.Unit, table string, row unit.Row) (TunnelKey, bool, error) {
	if schema.TunnelKey == nil {
		return TunnelKey{}, false, nil
	}
	key, ok, err := schema.TunnelKey(table, row.Model)
	if err != nil {
		return key, false, fmt.Errorf("row %s of %s: %w", uuidOf(row.Model), table, err)
	}
	if ok && key.Scope == table {
		for _, m := range u.Members {
			group := slices.Contains(schema.Tables[m.Parent.Table].Weak, m.Column)
			if m.Element == uuidOf(row.Model) && m.Column == "ports" && !group {
				key.Scope = table + " of " + m.Parent.UUID
			}
		}
	}
	return key, ok, nil
}

// set replaces the unit of a key; what it no longer wants becomes stale. check must have passed.
func (d *desired) set(schema *Schema, u unit.Unit) *unitState {
	st := d.units[u.Key]
	if st == nil {
		st = &unitState{stale: map[member]struct{}{}, gone: map[string]string{}}
		d.units[u.Key] = st
	}
	d.forget(schema, st)
	// The same again is no news: what differs from it now is still somebody else's doing.
	st.unit, st.clean = u, st.clean && reflect.DeepEqual(st.unit, u)
	st.version++
	for _, row := range u.Rows {
		d.take(schema, u, row)
	}
	for _, m := range u.Members {
		key := memberOf(m)
		d.elems[key] = append(unwish(d.elems[key], u.Key), wish{u.Key, m.Value})
		add(d.below, m.Parent.UUID, u.Key, struct{}{})
	}
	return st
}

func (d *desired) take(schema *Schema, u unit.Unit, row unit.Row) {
	id := uuidOf(row.Model)
	d.rows[id] = u.Key
	table, _ := schema.tableOf(row.Model)
	if key, ok, _ := rowTunnelKey(schema, u, table, row); ok {
		d.keys[key], d.owns[id] = id, key
	}
	if schema.Tables[table].Named {
		d.named[rowName{table, nameOf(row.Model)}] = u.Key
	}
}

// leave remembers the unit's rows and memberships as possibly left behind.
func (st *unitState) leave(schema *Schema) {
	for _, row := range st.unit.Rows {
		if table, err := schema.tableOf(row.Model); err == nil && row.Columns == nil {
			st.gone[uuidOf(row.Model)] = table
		}
	}
	for _, m := range st.unit.Members {
		st.stale[memberOf(m)] = struct{}{}
	}
}

// forget takes a unit out of the indexes.
func (d *desired) forget(schema *Schema, st *unitState) {
	st.leave(schema)
	for _, row := range st.unit.Rows {
		id := uuidOf(row.Model)
		delete(d.rows, id)
		if key, ok := d.owns[id]; ok {
			delete(d.keys, key)
			delete(d.owns, id)
		}
		if table, _ := schema.tableOf(row.Model); schema.Tables[table].Named {
			delete(d.named, rowName{table, nameOf(row.Model)})
		}
	}
	for _, m := range st.unit.Members {
		key := memberOf(m)
		if left := unwish(d.elems[key], st.unit.Key); len(left) > 0 {
			d.elems[key] = left
		} else {
			delete(d.elems, key)
		}
		drop(d.below, m.Parent.UUID, st.unit.Key)
	}
}

// done drops what a successful commit made obsolete.
func (d *desired) done(st *unitState) {
	clear(st.stale)
	clear(st.gone)
	if st.unit.Empty() && len(st.waiters) == 0 {
		delete(d.units, st.unit.Key)
	}
}

// unwish takes a unit's wish out.
func unwish(wishes []wish, key unit.Key) []wish {
	return slices.DeleteFunc(wishes, func(w wish) bool { return w.unit == key })
}

func add[K, V comparable, T any](index map[K]map[V]T, key K, value V, t T) {
	if index[key] == nil {
		index[key] = map[V]T{}
	}
	index[key][value] = t
}

func drop[K, V comparable, T any](index map[K]map[V]T, key K, value V) {
	delete(index[key], value)
	if len(index[key]) == 0 {
		delete(index, key)
	}
}
