package ovndb

import (
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/unit"
)

// Plan is the content of one transaction.
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
	// Have is the row in the database; nil for an insert.
	Have model.Model
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
	// Have is the value from which that of a combined element was computed.
	Have string
}

func (p *Plan) empty() bool { return p.size() == 0 }

func (p *Plan) size() int {
	return len(p.Inserts) + len(p.Updates) + len(p.Deletes) + len(p.Adds) + len(p.Removes)
}

// actual is the planner's view of the database.
type actual interface {
	row(table, uuid string) model.Model
	hasRow(table, uuid string) bool
	// foreignNamesakes lists the foreign rows of a table that have the name of m, without m itself.
	foreignNamesakes(table string, m model.Model) []string
	ownedBy(key unit.Key) []unit.Ref
	element(s slot, element string) (value string, ok bool)
	holders(element string) []slot
	// elements lists the elements of a slot, sorted.
	elements(s slot) []string
}

// changesRows reports whether the plan inserts or deletes rows, which the other units of its group may depend on.
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
	coming  map[string]bool // row UUIDs that are in the database after this plan, of the units that passed park
	touched map[member]bool // memberships already planned
	// strangers limits the plan to foreign changes. The removal of an element that another unit had, and has not
	// committed yet, is part of that unit's plan and not a foreign change.
	strangers bool
	joins     bool // the plan leaves out an element that a row's unit is about to add (isJoining)
}

// member identifies an element of a slot.
type member struct {
	slot    slot
	element string
}

func memberOf(m unit.Membership) member { return member{slot{m.Parent, m.Column}, m.Element} }

func newPlanner(schema *Schema, d *desired, a actual) *planner {
	return &planner{schema: schema, desired: d, actual: a, deleted: map[string]bool{}, made: map[string]bool{}, coming: map[string]bool{},
		touched: map[member]bool{}}
}

// park reports whether a unit depends on an absent row, and returns that row. It runs before any unit of the group is
// planned, because a parked unit wants nothing: the final state of the database must not depend on its earlier
// content. A row that an earlier unit of the group brings counts as present, so that one transaction has both units.
func (p *planner) park(st *unitState) *unit.Ref {
	absent := p.absentRow(st.unit)
	if st.parked = absent != nil; st.parked {
		p.desired.leave(p.schema, st)
	} else if !st.clean { // a clean unit may be left as it is, if foreign changes are only reported
		p.expect(st.unit)
	}
	return absent
}

// expect records the rows that a unit brings. Rows that the server deletes without a reference are left out, because
// they may have no parent yet.
func (p *planner) expect(u unit.Unit) {
	for _, row := range u.Rows {
		if table, _ := p.schema.tableOf(row.Model); row.Columns == nil && p.schema.Tables[table].Root {
			p.coming[uuidOf(row.Model)] = true
		}
	}
}

// present reports whether a row is in the database, or comes with this plan.
func (p *planner) present(ref unit.Ref) bool {
	return p.coming[ref.UUID] || p.actual.hasRow(ref.Table, ref.UUID)
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
		p.populate(st, row)
		p.removeMisplaced(row.Model)
		p.removeUnwanted(row)
	}
	for _, m := range st.unit.Members {
		p.planMember(m)
	}
}

// removeMisplaced removes one of our rows from each of our columns to which no unit added it. References from
// foreign rows are left to their owners.
func (p *planner) removeMisplaced(row model.Model) {
	uuid := uuidOf(row)
	table, _ := p.schema.tableOf(row)
	for _, s := range p.actual.holders(uuid) {
		ours := p.desired.wantsRow(s.parent.UUID) || !p.schema.Tables[table].Root && p.isOfKeptRow(s)
		if m := (member{s, uuid}); ours && !p.desired.wants(m) && !p.isLeft(m) && !p.isFormer(s) {
			p.remove(m)
		}
	}
}

// isFormer reports whether an element of a slot may be a former process's: the row's unit has not been compared since everything
// that is wanted is known, and removes then what nobody wants. Before, such an element is no foreign change.
func (p *planner) isFormer(s slot) bool {
	owner := p.desired.units[p.desired.rows[s.parent.UUID]]
	return p.strangers && owner != nil && slices.Contains(p.schema.Tables[s.parent.Table].Whole, s.column) &&
		(!p.desired.complete || !owner.clean)
}

// isOfKeptRow reports whether a slot is in a row of a unit that this process has not applied, such as the gateway of a node whose
// agent has not reported. Rows that live by such a reference have it from their own unit, because only that adds it.
func (p *planner) isOfKeptRow(s slot) bool {
	row := p.actual.row(s.parent.Table, s.parent.UUID)
	return row != nil && !p.isWeak(s) && p.schema.ownerOf(s.parent.Table, row) != ""
}

// absentRow returns the first row that the unit depends on and that neither the database nor the unit has. It is the
// parent of a membership or a row of another program.
func (p *planner) absentRow(u unit.Unit) *unit.Ref {
	for _, m := range u.Members {
		if !m.Optional && !p.desired.ownsRow(u.Key, m.Parent.UUID) && !p.present(m.Parent) {
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

// removeStale plans the removal of rows and memberships that are in the database and that no unit wants any more.
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

// removeUnwanted removes elements that no unit wants from the columns of a row that are ours alone. Such an element
// belonged to an object that was deleted while no process ran, or is foreign. Before the desired state is complete,
// it removes nothing.
func (p *planner) removeUnwanted(row unit.Row) {
	if !p.desired.complete || row.Columns != nil {
		return
	}
	table, _ := p.schema.tableOf(row.Model)
	for _, name := range p.schema.Tables[table].Whole {
		s := slot{unit.Ref{Table: table, UUID: uuidOf(row.Model)}, name}
		for _, element := range p.actual.elements(s) {
			if m := (member{s, element}); !p.desired.wants(m) && !p.isLeft(m) {
				p.remove(m)
			}
		}
	}
}

// isLeft reports whether the removal of an element is left to the unit that had it.
func (p *planner) isLeft(m member) bool { return p.strangers && p.desired.leaving[m] > 0 }

func (p *planner) removeRow(ref unit.Ref) {
	if p.desired.wantsRow(ref.UUID) || p.deleted[ref.UUID] {
		return
	}
	p.deleted[ref.UUID] = true
	p.plan.Deletes = append(p.plan.Deletes, RowDelete{p.owner, ref})
	if len(p.schema.Tables[ref.Table].Supersedes) > 0 {
		p.supersede(ref.Table, p.actual.row(ref.Table, ref.UUID))
	}
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
	p.plan.Removes = append(p.plan.Removes, Element{Owner: p.owner, Have: value,
		Membership: unit.Membership{Parent: m.slot.parent, Column: m.slot.column, Element: m.element, Value: value}})
}

func (p *planner) planRow(u unit.Unit, row unit.Row) {
	table, _ := p.schema.tableOf(row.Model) // desired.check has refused unknown tables
	have := p.actual.row(table, uuidOf(row.Model))
	if have == nil {
		if p.made[uuidOf(row.Model)] || p.unheld(u, table, uuidOf(row.Model)) {
			return
		}
		p.insert(u.Key, table, row)
		p.reemit(u, uuidOf(row.Model))
		return
	}
	if changed := p.changedColumns(table, row, have); len(changed) > 0 {
		p.plan.Updates = append(p.plan.Updates, RowChange{Owner: p.owner, Table: table, Model: row.Model, Columns: changed, Have: have})
	}
}

func (p *planner) insert(owner unit.Key, table string, row unit.Row) {
	p.plan.Inserts = append(p.plan.Inserts, RowChange{Owner: owner, Table: table, Model: row.Model})
	p.made[uuidOf(row.Model)] = true
	p.supersede(table, row.Model)
}

// supersede plans the deletion of the foreign rows that may not exist beside a row, or without it.
func (p *planner) supersede(table string, row model.Model) {
	for _, other := range p.schema.Tables[table].Supersedes {
		for _, uuid := range p.actual.foreignNamesakes(other, row) {
			if !p.deleted[uuid] {
				p.deleted[uuid] = true
				p.plan.Deletes = append(p.plan.Deletes, RowDelete{p.owner, unit.Ref{Table: other, UUID: uuid}})
			}
		}
	}
}

// unheld reports whether the server would delete a row at once, because only rows that are absent may refer to it. If
// this plan inserts one of them, populate inserts the row too.
func (p *planner) unheld(u unit.Unit, table, uuid string) bool {
	held := func(m unit.Membership) bool { return m.Element == uuid && !p.absent(m) }
	refers := func(m unit.Membership) bool { return m.Element == uuid }
	return !p.schema.Tables[table].Root && slices.ContainsFunc(u.Members, refers) && !slices.ContainsFunc(u.Members, held)
}

// revive plans the insertion of a row that its unit does not have in the database while the row's only parent is
// absent.
func (p *planner) revive(u unit.Unit, uuid string) {
	i := slices.IndexFunc(u.Rows, func(row unit.Row) bool { return uuidOf(row.Model) == uuid })
	if i < 0 || p.made[uuid] {
		return
	}
	if table, _ := p.schema.tableOf(u.Rows[i].Model); p.actual.row(table, uuid) == nil {
		p.insert(u.Key, table, u.Rows[i])
	}
}

// reemit plans all memberships of an inserted row, even if the ledger holds them, because weak references to an
// absent row vanish silently.
func (p *planner) reemit(u unit.Unit, uuid string) {
	for _, m := range u.Members {
		if key := memberOf(m); m.Element == uuid && !p.touched[key] && !p.absent(m) {
			p.touched[key] = true
			p.plan.Adds = append(p.plan.Adds, Element{Owner: p.owner, Membership: m})
		}
	}
}

// absent reports whether a membership is skipped because its parent is absent. If this plan inserts the parent,
// populate adds the membership.
func (p *planner) absent(m unit.Membership) bool {
	return m.Optional && (p.deleted[m.Parent.UUID] || !p.actual.hasRow(m.Parent.Table, m.Parent.UUID))
}

// populate plans the memberships of other units in an inserted row, and the optional ones in a row whose unit has
// changed (Join). Optional memberships are added with the row, so that none is missing between two transactions.
// Memberships in columns that are ours alone are added because their units may not have seen yet that the row's
// predecessor is gone. References to rows of those units are left to the units, because the rows may be gone too.
func (p *planner) populate(st *unitState, row unit.Row) {
	parent := uuidOf(row.Model)
	table, _ := p.schema.tableOf(row.Model)
	whole, made := p.schema.Tables[table].Whole, p.made[parent]
	if !made && (st.clean || len(whole) == 0) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(p.desired.below[parent])) {
		other := p.desired.units[key]
		if other.parked {
			continue
		}
		for _, m := range other.unit.Members {
			if m.Parent.UUID != parent || !m.Optional && (!made || !slices.Contains(whole, m.Column)) {
				continue
			}
			if id := memberOf(m); !p.touched[id] && !p.holds(m) {
				p.touched[id] = true
				if m.Optional {
					p.revive(other.unit, m.Element)
				}
				p.plan.Adds = append(p.plan.Adds, Element{Owner: key, Membership: m})
			}
		}
	}
}

// holds reports whether the database has a membership. A recreated row is empty, whatever the ledger has of its
// predecessor: the predecessor's removal reaches the ledger later than the copy.
func (p *planner) holds(m unit.Membership) bool {
	value, ok := p.actual.element(slot{m.Parent, m.Column}, m.Element)
	return !p.made[m.Parent.UUID] && p.schema.met(m, value, ok)
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
	if p.touched[key] || p.absent(m) || p.holds(m) {
		return
	}
	if p.isJoining(m) {
		p.joins = true
		return
	}
	have, _ := p.actual.element(key.slot, key.element)
	value, present := p.schema.valueOf(m, have)
	if !present {
		p.remove(key)
		return
	}
	m.Value = value
	p.touched[key] = true
	p.plan.Adds = append(p.plan.Adds, Element{Owner: p.owner, Membership: m, Have: have})
}

// isJoining reports whether the unit of a row has not committed its last change. A membership in the row may be missing
// because its unit has joined since, which is no foreign change.
func (p *planner) isJoining(m unit.Membership) bool {
	owner := p.desired.units[p.desired.rows[m.Parent.UUID]]
	return p.strangers && m.Optional && owner != nil && !owner.clean
}
