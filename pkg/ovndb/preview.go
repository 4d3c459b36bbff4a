package ovndb

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/weft-network/weft/pkg/unit"
)

// Drift compares the database with all committed units without writing. It reads the columns that are not monitored
// by a new select. It leaves out units that are pending or refused, because their differences are not foreign
// changes.
func (e *Engine) Drift(ctx context.Context) ([]Change, error) {
	s := e.session()
	if s == nil {
		return nil, errDisconnected
	}
	fresh, err := loadLedger(ctx, s)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	view := dbView{s, fresh}
	p := newPlanner(s.schema, e.desired, view)
	for _, key := range slices.Sorted(maps.Keys(e.desired.units)) {
		if st := e.desired.units[key]; st.clean && !st.parked {
			p.add(st)
		}
	}
	return p.plan.changes(s.schema, view), nil
}

// Plan returns what applying these units would change in the database now, without writing. The result includes other
// units that wait for rows of these units or lose their parents. A unit that collides with another is a
// RejectedError.
func (e *Engine) Plan(units []unit.Unit) ([]Change, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	plan, view, err := e.planned(units)
	if err != nil {
		return nil, err
	}
	return plan.changes(view.schema, view), nil
}

// Operations returns the operations of the transaction that would make the changes of Plan, in OVSDB's wire format.
func (e *Engine) Operations(units []unit.Unit) (texts []json.RawMessage, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	plan, view, err := e.planned(units)
	if err != nil {
		return nil, err
	}
	operations, err := view.operations(&plan)
	for _, operation := range operations {
		text, failed := json.Marshal(operation)
		texts, err = append(texts, text), errors.Join(err, failed)
	}
	return texts, err
}

// planned returns what applying units would change, and the view of the database that it was computed from. e.mu must
// be held.
func (e *Engine) planned(units []unit.Unit) (Plan, dbView, error) {
	w := e.writer
	if w == nil {
		return Plan{}, dbView{}, errDisconnected
	}
	view := dbView{w.session, w.ledger}
	d := e.desired.clone()
	planned, err := d.replace(w.session.schema, e.changedUnits(units))
	if err != nil {
		return Plan{}, view, err
	}
	return preview(view, d, planned), view, nil
}

// Difference returns the differences between the database and all units, without writing. It reads the columns that
// are not monitored again, because another engine writes beside a read-only engine.
func (e *Engine) Difference(ctx context.Context) ([]Change, error) {
	s := e.session()
	if s == nil {
		return nil, errDisconnected
	}
	fresh, err := loadLedger(ctx, s)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[unit.Key]bool{}
	for key := range e.desired.units {
		all[key] = true
	}
	view := dbView{s, fresh}
	plan := preview(view, e.desired.clone(), all)
	return plan.changes(s.schema, view), nil
}

// preview returns what applying the planned units of d, and the units that depend on them, would change.
func preview(view dbView, d *desired, planned map[unit.Key]bool) Plan {
	schema := view.schema
	after := &previewed{actual: view, desired: d, coming: map[string]bool{}, going: map[string]bool{}}
	for after.settle(schema, planned) {
	}
	p := newPlanner(schema, d, view)
	for _, key := range slices.Sorted(maps.Keys(planned)) {
		p.add(d.units[key])
	}
	return p.plan
}

// changedUnits returns the units that differ from the engine's. Units that end come first, because others may take over their
// rows.
func (e *Engine) changedUnits(units []unit.Unit) []unit.Unit {
	var found []unit.Unit
	for _, u := range units {
		u = e.tagged(u)
		if st := e.desired.units[u.Key]; st == nil && !u.Empty() || st != nil && !reflect.DeepEqual(st.unit, u) {
			found = append(found, u)
		}
	}
	slices.SortStableFunc(found, func(a, b unit.Unit) int { return rank(a) - rank(b) })
	return found
}

func rank(u unit.Unit) int {
	if u.Empty() {
		return 0
	}
	return 1
}

// replace sets units and returns their keys.
func (d *desired) replace(schema *Schema, units []unit.Unit) (map[unit.Key]bool, error) {
	keys := map[unit.Key]bool{}
	for _, u := range units {
		if err := d.check(schema, u); err != nil {
			return nil, &RejectedError{u.Key, err}
		}
		d.set(schema, u)
		keys[u.Key] = true
	}
	return keys, nil
}

// previewed is the future database, with the rows that the plan adds and without the rows that it removes.
type previewed struct {
	actual
	desired       *desired
	coming, going map[string]bool // row UUIDs
}

func (v *previewed) hasRow(table, uuid string) bool {
	return v.coming[uuid] || !v.going[uuid] && v.actual.hasRow(table, uuid)
}

// settle parks and wakes units until nothing changes, and reports whether anything changed. Units that depend on
// added or removed rows become planned too.
func (v *previewed) settle(schema *Schema, planned map[unit.Key]bool) (changed bool) {
	p := newPlanner(schema, v.desired, v)
	for key := range maps.Clone(planned) {
		st := v.desired.units[key]
		p.park(st)
		for _, row := range st.unit.Rows {
			if row.Columns == nil {
				changed = v.move(uuidOf(row.Model), !st.parked, planned) || changed
			}
		}
		for uuid := range st.gone {
			if !v.desired.wantsRow(uuid) {
				changed = v.move(uuid, false, planned) || changed
			}
		}
		for _, ref := range v.actual.ownedBy(key) {
			if !v.desired.wantsRow(ref.UUID) {
				changed = v.move(ref.UUID, false, planned) || changed
			}
		}
	}
	return changed
}

// move records that a row is added or removed, and plans the units below it.
func (v *previewed) move(uuid string, comes bool, planned map[unit.Key]bool) bool {
	if v.coming[uuid] == comes && v.going[uuid] == !comes {
		return false
	}
	v.coming[uuid], v.going[uuid] = comes, !comes
	for key := range v.desired.below[uuid] {
		planned[key] = true
	}
	return true
}

// clone copies the indexes. Units and rows are shared, because they are immutable.
func (d *desired) clone() *desired {
	c := newDesired()
	c.complete = d.complete
	for key, st := range d.units {
		copied := *st
		copied.stale, copied.gone, copied.waiters = maps.Clone(st.stale), maps.Clone(st.gone), nil
		c.units[key] = &copied
	}
	maps.Copy(c.rows, d.rows)
	maps.Copy(c.keys, d.keys)
	maps.Copy(c.owns, d.owns)
	maps.Copy(c.named, d.named)
	maps.Copy(c.leaving, d.leaving)
	for m, units := range d.elems {
		c.elems[m] = slices.Clone(units)
	}
	for uuid, units := range d.below {
		c.below[uuid] = maps.Clone(units)
	}
	return c
}
