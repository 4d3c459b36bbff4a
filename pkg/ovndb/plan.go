package ovndb

import (
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/unit"
)

// Plan is what one transaction will change.
type Plan struct {
	Inserts []RowChange
	Updates []RowChange
	Deletes []RowDelete
	Adds    []Element
	Removes []Element
}

// RowChange is a row to insert, or the columns of a row to update.
type RowChange struct {
	Owner   unit.Key
	Table   string
	Model   model.Model
	Columns []string // nil for an insert
}

// RowDelete is a row to delete.
type RowDelete struct {
	Owner unit.Key
	unit.Ref
}

// Element is an element to add to a shared column, or to remove from it.
type Element struct {
	Owner unit.Key
	unit.Membership
}

func (p *Plan) empty() bool {
	return len(p.Inserts)+len(p.Updates)+len(p.Deletes)+len(p.Adds)+len(p.Removes) == 0
}

// actual is what the planner needs to know of the database.
type actual interface {
	row(table, uuid string) model.Model
	hasRow(table, uuid string) bool
	ownedBy(key unit.Key) []unit.Ref
	element(s slot, element string) (value string, ok bool)
	holders(element string) []slot
	// elements lists what a slot holds, sorted.
	elements(s slot) []string
}

// changesRows reports whether rows come or go with this plan: then the others of its group may have to follow.
func (p *planner) changesRows() bool { return len(p.made)+len(p.deleted) > 0 }

// planner computes one plan for a group of units.
type planner struct {
	schema  *Schema
	desired *desired
	actual  actual

	plan    Plan
	owner   unit.Key        // the unit that is being planned
	deleted map[string]bool // row UUIDs that this plan deletes
	made    map[string]bool // row UUIDs that this plan inserts
	touched map[member]bool // memberships already planned
}

// member identifies an element of a slot.
type member struct {
	slot    slot
	element string
}

func memberOf(m unit.Membership) member { return member{slot{m.Parent, m.Column}, m.Element} }

func newPlanner(schema *Schema, d *desired, a actual) *planner {
	return &planner{schema: schema, desired: d, actual: a, deleted: map[string]bool{}, made: map[string]bool{}, touched: map[member]bool{}}
}

// park finds out whether a unit builds on an absent row, and returns that row. It comes before any unit of the group is
// planned, since a parked unit wants nothing: what the database ends with must not depend on what was there before.
func (p *planner) park(st *unitState) *unit.Ref {
	absent := p.absentRow(st.unit)
	if st.parked = absent != nil; st.parked {
		st.leave(p.schema)
	}
	return absent
}

// add plans one unit.
func (p *planner) add(st *unitState) {
	p.owner = st.unit.Key
	p.removeStale(st)
	if st.parked {
		return
	}
	for _, row := range st.unit.Rows {
		p.planRow(st.unit, row)
		p.removeMisplaced(uuidOf(row.Model))
		p.removeUnwanted(row)
	}
	for _, m := range st.unit.Members {
		p.planMember(m)
	}
}

// removeMisplaced takes a row of ours out of those columns of ours that it was not added to by a unit. What a foreign row refers
// to is its owner's business.
func (p *planner) removeMisplaced(uuid string) {
	for _, s := range p.actual.holders(uuid) {
		if m := (member{s, uuid}); p.desired.wantsRow(s.parent.UUID) && !p.desired.wants(m) {
			p.remove(m)
		}
	}
}

// absentRow returns the first row that the unit builds on and neither the database nor the unit itself has: the parent of a
// membership, or a row made by somebody else.
func (p *planner) absentRow(u unit.Unit) *unit.Ref {
	for _, m := range u.Members {
		if !m.Optional && !p.desired.ownsRow(u.Key, m.Parent.UUID) && !p.actual.hasRow(m.Parent.Table, m.Parent.UUID) {
			return &m.Parent
		}
	}
	for _, row := range u.Rows {
		table, _ := p.schema.tableOf(row.Model)
		if row.Columns != nil && !p.actual.hasRow(table, uuidOf(row.Model)) {
			return &unit.Ref{Table: table, UUID: uuidOf(row.Model)}
		}
	}
	return nil
}

// removeStale plans the end of rows and memberships that the database has and nobody wants any more.
func (p *planner) removeStale(st *unitState) {
	for _, ref := range p.actual.ownedBy(st.unit.Key) {
		p.removeRow(ref)
	}
	for uuid, table := range st.gone {
		if p.actual.hasRow(table, uuid) {
			p.removeRow(unit.Ref{Table: table, UUID: uuid})
		}
	}
	for m := range st.stale {
		if !p.desired.wants(m) {
			p.remove(m)
		}
	}
}

// removeUnwanted takes out of a row of the unit what nobody wants in columns that are ours alone: left by an object that went while
// nobody watched, or put there by somebody else. Before everybody has said what he wants, nothing is unwanted.
func (p *planner) removeUnwanted(row unit.Row) {
	if !p.desired.complete || row.Columns != nil {
		return
	}
	table, _ := p.schema.tableOf(row.Model)
	for _, name := range p.schema.Tables[table].Whole {
		s := slot{unit.Ref{Table: table, UUID: uuidOf(row.Model)}, name}
		for _, element := range p.actual.elements(s) {
			if m := (member{s, element}); !p.desired.wants(m) {
				p.remove(m)
			}
		}
	}
}

func (p *planner) removeRow(ref unit.Ref) {
	if p.desired.wantsRow(ref.UUID) || p.deleted[ref.UUID] {
		return
	}
	p.deleted[ref.UUID] = true
	p.plan.Deletes = append(p.plan.Deletes, RowDelete{p.owner, ref})
	for _, s := range p.actual.holders(ref.UUID) {
		p.remove(member{s, ref.UUID})
	}
}

func (p *planner) remove(m member) {
	if p.touched[m] || p.deleted[m.slot.parent.UUID] {
		return
	}
	value, ok := p.actual.element(m.slot, m.element)
	if !ok {
		return
	}
	p.touched[m] = true
	p.plan.Removes = append(p.plan.Removes, Element{p.owner, unit.Membership{Parent: m.slot.parent, Column: m.slot.column, Element: m.element, Value: value}})
}

func (p *planner) planRow(u unit.Unit, row unit.Row) {
	table, _ := p.schema.tableOf(row.Model) // desired.check has refused unknown tables
	have := p.actual.row(table, uuidOf(row.Model))
	if have == nil {
		p.plan.Inserts = append(p.plan.Inserts, RowChange{Owner: p.owner, Table: table, Model: row.Model})
		p.made[uuidOf(row.Model)] = true
		p.reemit(u, uuidOf(row.Model))
		p.populate(uuidOf(row.Model))
		return
	}
	if changed := p.changedColumns(table, row, have); len(changed) > 0 {
		p.plan.Updates = append(p.plan.Updates, RowChange{Owner: p.owner, Table: table, Model: row.Model, Columns: changed})
	}
}

// reemit plans all memberships of an inserted row even if the ledger holds them: weak references to a row that was absent
// vanished silently.
func (p *planner) reemit(u unit.Unit, uuid string) {
	for _, m := range u.Members {
		if key := memberOf(m); m.Element == uuid && !p.touched[key] && !p.absent(m) {
			p.touched[key] = true
			p.plan.Adds = append(p.plan.Adds, Element{p.owner, m})
		}
	}
}

// absent reports whether a membership is left out: if its parent comes in this plan, populate sees to it.
func (p *planner) absent(m unit.Membership) bool {
	return m.Optional && (p.deleted[m.Parent.UUID] || !p.actual.hasRow(m.Parent.Table, m.Parent.UUID))
}

// populate plans the memberships of all units in a row that is inserted: the optional ones, which come with it, so that nothing of them is missing
// between two transactions, and those in columns that are ours alone, whose units may not have heard yet that the row's predecessor went.
// What refers to rows of those units is theirs to add: the row may be gone too.
func (p *planner) populate(parent string) {
	for _, key := range slices.Sorted(maps.Keys(p.desired.below[parent])) {
		st := p.desired.units[key]
		if st.parked {
			continue
		}
		for _, m := range st.unit.Members {
			comes := m.Optional || slices.Contains(p.schema.Tables[m.Parent.Table].Whole, m.Column)
			if id := memberOf(m); comes && m.Parent.UUID == parent && !p.touched[id] {
				p.touched[id] = true
				p.plan.Adds = append(p.plan.Adds, Element{key, m})
			}
		}
	}
}

func (p *planner) changedColumns(table string, row unit.Row, have model.Model) []string {
	columns := row.Columns
	if columns == nil {
		columns = p.schema.ownedColumns(table)
	}
	var changed []string
	for _, name := range columns {
		want, has := column(row.Model, name), column(have, name)
		if slices.Contains(p.schema.Tables[table].Merge, name) {
			if !contains(has.(map[string]string), want.(map[string]string)) {
				changed = append(changed, name)
			}
		} else if !equal(want, has) {
			changed = append(changed, name)
		}
	}
	return changed
}

func (p *planner) planMember(m unit.Membership) {
	key := memberOf(m)
	if p.touched[key] || p.absent(m) {
		return
	}
	// A row that is made anew has nothing, whatever the ledger knows of its predecessor: it hears of that one's end after the copy does.
	if value, ok := p.actual.element(key.slot, m.Element); ok && value == m.Value && !p.made[m.Parent.UUID] {
		return
	}
	p.touched[key] = true
	p.plan.Adds = append(p.plan.Adds, Element{p.owner, m})
}
