package ovndb

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/weft-network/weft/pkg/unit"
)

// desired holds all units and indexes what they want.
type desired struct {
	units map[unit.Key]*unitState
	rows  map[string]unit.Key // row UUID -> the unit that wants it
	// element -> units that want it, with their values. Most elements have one unit, for which a map would be large.
	elems map[member][]wish
	below map[string]map[unit.Key]struct{} // parent row UUID -> units with memberships in it
	keys  map[TunnelKey]string             // requested tunnel key -> row UUID
	owns  map[string]TunnelKey             // row UUID -> requested tunnel key
	named map[rowName]unit.Key             // name of a row in a table with Named -> the unit that wants it
	// leaving counts the units that had an element and have not committed its removal. Until they do, the element is
	// ours although no unit wants it.
	leaving map[member]int

	complete bool // the units of all objects have been applied
}

// wish is a unit that wants an element, and the value that it wants.
type wish struct {
	unit  unit.Key
	value string
}

// rowName is a row's name within its table.
type rowName struct{ table, name string }

// unitState is one unit and its progress between two commits.
type unitState struct {
	unit  unit.Unit
	stale map[member]struct{} // former memberships that may still be in the database; nil without any
	// UUID -> table of former rows; tables without external_ids have no other record of them; nil without any
	gone    map[string]string
	parked  bool // depends on an absent row: until that row exists, no row of the unit may exist
	waiters []chan error
	last    error  // outcome of the last plan
	version uint64 // counts how often the unit was replaced
	clean   bool   // this version is committed: any difference from now on is a foreign change
	lost    uint64 // the commit that deleted a row with elements of the unit (Engine.commits)
	repairs repairs
	cause   Cause // of the last Apply
}

func newDesired() *desired {
	return &desired{
		units: map[unit.Key]*unitState{}, rows: map[string]unit.Key{}, elems: map[member][]wish{},
		below: map[string]map[unit.Key]struct{}{}, keys: map[TunnelKey]string{}, owns: map[string]TunnelKey{},
		named: map[rowName]unit.Key{}, leaving: map[member]int{},
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

// check returns an error for a unit that collides with another. Nothing of the unit is stored in that case.
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

// checkTunnelKey protects northd: one key out of range stops it for the whole network, and northd silently replaces a
// key that is in use.
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

// rowTunnelKey returns the key that a row requests. The scope of a port's key is its switch or router.
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

// set replaces the unit of a key. Rows and memberships that it no longer wants become stale. check must have passed.
func (d *desired) set(schema *Schema, u unit.Unit) *unitState {
	st := d.units[u.Key]
	if st == nil {
		st = &unitState{}
		d.units[u.Key] = st
	}
	d.unindex(schema, st)
	// An identical unit keeps its state: any difference from it is still a foreign change.
	st.unit, st.clean = u, st.clean && same(st.unit, u)
	st.version++
	for _, row := range u.Rows {
		d.take(schema, u, row)
	}
	d.indexMembers(u.Key, u.Members)
	for _, m := range u.Left {
		d.leaveMember(st, memberOf(m))
	}
	return st
}

func (d *desired) indexMembers(key unit.Key, members []unit.Membership) {
	for _, m := range members {
		id := memberOf(m)
		d.elems[id] = append(withoutWish(d.elems[id], key), wish{key, m.Value})
		add(d.below, m.Parent.UUID, key, struct{}{})
	}
}

// same reports whether two units want the same. The order of memberships has no meaning: Join appends.
func same(a, b unit.Unit) bool {
	if len(a.Rows) != len(b.Rows) || len(a.Members) != len(b.Members) || !reflect.DeepEqual(a.Rows, b.Rows) {
		return false
	}
	if slices.Equal(a.Members, b.Members) {
		return true
	}
	had := make(map[unit.Membership]int, len(a.Members))
	for _, m := range a.Members {
		had[m]++
	}
	for _, m := range b.Members {
		if had[m]--; had[m] < 0 {
			return false
		}
	}
	return true
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

// leave records the unit's rows and memberships as possibly left behind.
func (d *desired) leave(schema *Schema, st *unitState) {
	for _, row := range st.unit.Rows {
		if table, err := schema.tableOf(row.Model); err == nil && row.Columns == nil {
			if st.gone == nil {
				st.gone = map[string]string{}
			}
			st.gone[uuidOf(row.Model)] = table
		}
	}
	for _, m := range st.unit.Members {
		d.leaveMember(st, memberOf(m))
	}
}

// leaveMember leaves the removal of an element to a unit.
func (d *desired) leaveMember(st *unitState, m member) {
	if _, known := st.stale[m]; !known {
		if st.stale == nil {
			st.stale = map[member]struct{}{}
		}
		st.stale[m] = struct{}{}
		d.leaving[m]++
	}
}

// forgetMember ends that the removal of an element is left to a unit, because another unit, or the end of the row, removes it.
func (d *desired) forgetMember(st *unitState, m member) {
	if _, known := st.stale[m]; known {
		delete(st.stale, m)
		d.left(m)
	}
}

// left records that one unit less removes an element.
func (d *desired) left(m member) {
	if d.leaving[m]--; d.leaving[m] == 0 {
		delete(d.leaving, m)
	}
}

// unindex removes a unit from the indexes.
func (d *desired) unindex(schema *Schema, st *unitState) {
	d.leave(schema, st)
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
		d.unindexMember(st.unit.Key, m)
		drop(d.below, m.Parent.UUID, st.unit.Key)
	}
}

func (d *desired) unindexMember(key unit.Key, m unit.Membership) {
	id := memberOf(m)
	if left := withoutWish(d.elems[id], key); len(left) > 0 {
		d.elems[id] = left
	} else {
		delete(d.elems, id)
	}
}

// done drops the records that a successful commit made obsolete.
func (d *desired) done(st *unitState) {
	for m := range st.stale {
		d.left(m)
	}
	st.stale, st.gone = nil, nil // an empty map keeps its memory
	if st.unit.Empty() && len(st.waiters) == 0 {
		delete(d.units, st.unit.Key)
	}
}

// withoutWish removes a unit's wish from the list.
func withoutWish(wishes []wish, key unit.Key) []wish {
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
