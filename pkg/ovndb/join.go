package ovndb

import (
	"slices"

	"github.com/weft-network/weft/pkg/unit"
)

// Join adds optional memberships to units, as if the units had been applied with them. members receives each unit as
// it is and returns what it gains; Join drops what the unit already has. A key without a unit is skipped. The next
// Apply of a unit replaces its memberships, the joined ones included.
//
// Join does not wait. A row that is inserted later is inserted with these elements. A row that exists gets them when
// its own unit is planned next, which Join arranges.
func (e *Engine) Join(keys []unit.Key, members func(unit.Unit) []unit.Membership) {
	e.Regroup([]unit.Regrouping{{Join: keys, Members: members}})
}

// Regroup adds optional memberships to units, as Join does, and removes others, as if the units had been applied
// without them. All changes are queued at once, so that one transaction has them. Regroup does not wait.
func (e *Engine) Regroup(changes []unit.Regrouping) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range changes {
		e.join(c.Join, c.Members)
		for _, row := range c.Rows {
			e.leave(c.Leave, row)
		}
	}
}

func (e *Engine) join(keys []unit.Key, members func(unit.Unit) []unit.Membership) {
	for _, key := range keys {
		st := e.desired.units[key]
		if st == nil {
			continue
		}
		for _, m := range e.desired.join(st, members(st.unit)) {
			if e.writer == nil { // when the database connects, the missing element must not count as foreign
				st.change()
			} else if owner := e.desired.units[e.desired.rows[m.Parent.UUID]]; owner != nil {
				owner.change()
				e.enqueue(owner.unit.Key)
			}
		}
	}
}

// leave removes the optional memberships of units in a row. The unit of the row removes the elements.
func (e *Engine) leave(keys []unit.Key, row unit.Ref) {
	owner := e.desired.units[e.desired.rows[row.UUID]]
	for _, key := range keys {
		st := e.desired.units[key]
		if st == nil {
			continue
		}
		by := owner
		if by == nil { // the row's unit is not applied yet
			by = st
		}
		if e.desired.leaveRowOf(st, row, by) {
			by.change()
			e.enqueue(by.unit.Key)
		}
	}
}

// change records that a unit wants something else. A commit in flight does not mark it clean.
func (st *unitState) change() {
	st.version++
	st.clean = false
}

// End makes units empty, and removes the optional memberships in their rows from all units. It does not wait. Retry
// returns the outcome of one of the units.
func (e *Engine) End(keys []unit.Key, rows []unit.Ref) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, row := range rows {
		e.desired.leaveRow(row)
	}
	for _, key := range keys {
		e.desired.set(&e.cfg.Schema, unit.Unit{Key: key}).cause = Cause{} // whatever made it, nothing uses it now
		e.enqueue(key)
	}
}

// join adds memberships to a unit unless it has them, and returns the added memberships.
func (d *desired) join(st *unitState, members []unit.Membership) (gained []unit.Membership) {
	for _, m := range members {
		if m.Optional && !slices.ContainsFunc(st.unit.Members, func(had unit.Membership) bool { return memberOf(had) == memberOf(m) }) {
			gained = append(gained, m)
		}
	}
	if len(gained) == 0 {
		return nil
	}
	st.unit.Members = slices.Concat(st.unit.Members, gained) // the previous slice may be shared
	d.indexMembers(st.unit.Key, gained)
	return gained
}

// leaveRow removes the optional memberships in a row from all units. The end of the row is expected to remove its
// elements: until that is committed they are not foreign.
func (d *desired) leaveRow(row unit.Ref) {
	owner := d.units[d.rows[row.UUID]]
	for key := range d.below[row.UUID] {
		d.leaveRowOf(d.units[key], row, owner)
	}
}

// leaveRowOf removes the optional memberships in a row from a unit, and leaves their removal to the unit by, unless it
// is nil. left reports whether there were any.
func (d *desired) leaveRowOf(st *unitState, row unit.Ref, by *unitState) (left bool) {
	inRow := func(m unit.Membership) bool { return m.Optional && m.Parent == row }
	if !slices.ContainsFunc(st.unit.Members, inRow) {
		return false
	}
	kept := make([]unit.Membership, 0, len(st.unit.Members))
	for _, m := range st.unit.Members {
		if !inRow(m) {
			kept = append(kept, m)
			continue
		}
		d.unindexMember(st.unit.Key, m)
		if by != nil {
			d.leaveMember(by, memberOf(m))
		}
		if by != st {
			d.forgetMember(st, memberOf(m)) // st may have been applied again, and not compared since
		}
	}
	st.unit.Members = kept
	if !slices.ContainsFunc(kept, func(m unit.Membership) bool { return m.Parent.UUID == row.UUID }) {
		drop(d.below, row.UUID, st.unit.Key)
	}
	return true
}
