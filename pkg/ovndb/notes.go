package ovndb

import (
	"slices"
	"time"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/ovndb/history"
	"github.com/weft-network/weft/pkg/unit"
)

// notes is what a writer needs to record its transactions.
type notes struct {
	draft   history.Draft
	parents map[unit.Ref]parent
	columns map[string][]string // owned columns by table
}

// parent is the name of a row, and the unit that owns it.
type parent struct {
	name  string
	owner unit.Key
}

// maxParents bounds the rows whose names are kept.
const maxParents = 4096

// draft describes a transaction before it is sent, because its changes may reach the copy before its reply.
func (w *writer) draft(p *Plan, group []plannedUnit) {
	if w.engine.cfg.History == nil {
		return
	}
	d, schema := &w.notes.draft, w.session.schema
	d.Begin(w.engine.cfg.Now(), history.ByWeft)
	for i := range group {
		if g := &group[i]; g.planned {
			d.Cause(history.Cause{Unit: g.key, Object: g.cause.Object, Reconciler: g.cause.Reconciler, Repair: g.repairs()})
		}
	}
	for _, c := range p.Inserts {
		if d.Change(string(OpInsert), c.Owner, "", c.Table, uuidOf(c.Model), nameOf(c.Model)) {
			w.eachValue(c.Table, c.Model, d.Set)
		}
	}
	for _, c := range p.Updates {
		if d.Change(string(OpUpdate), c.Owner, "", c.Table, uuidOf(c.Model), nameOf(c.Model)) {
			draftUpdate(d, schema, c)
		}
	}
	for _, e := range p.Removes {
		w.draftElement(d, OpRemove, e)
	}
	for _, e := range p.Adds {
		w.draftElement(d, OpAdd, e)
	}
	for _, c := range p.Deletes {
		row := w.session.row(c.Table, c.UUID)
		if d.Change(string(OpDelete), c.Owner, "", c.Table, c.UUID, nameOf(row)) && row != nil {
			w.eachValue(c.Table, row, d.Unset)
		}
		delete(w.notes.parents, c.Ref)
	}
}

// eachValue calls write with each owned column of a row that has a value.
func (w *writer) eachValue(table string, row model.Model, write func(column string, value any)) {
	columns, ok := w.notes.columns[table]
	if !ok {
		if w.notes.columns == nil {
			w.notes.columns = map[string][]string{}
		}
		columns = w.session.schema.ownedColumns(table)
		w.notes.columns[table] = columns
	}
	for _, name := range columns {
		if value := column(row, name); !isEmpty(value) {
			write(name, value)
		}
	}
}

func draftUpdate(d *history.Draft, schema *Schema, c RowChange) {
	for _, name := range c.Columns {
		want, has := column(c.Model, name), column(c.Have, name)
		if slices.Contains(schema.Tables[c.Table].Merge, name) {
			has = restrictTo(has.(map[string]string), want.(map[string]string))
		}
		d.Differ(name, has, want)
	}
}

// draftElement describes an element. The value of a pair that gets another value is not in the copy.
func (w *writer) draftElement(d *history.Draft, op Op, e Element) {
	in := w.parentOf(e.Parent)
	holder := in.owner
	if holder == e.Owner {
		holder = ""
	}
	if !d.Change(string(op), e.Owner, holder, e.Parent.Table, e.Parent.UUID, in.name) {
		return
	}
	text, before := pairText(e.Element, e.Value), ""
	if op == OpRemove {
		d.Text(e.Column, text, "")
		return
	}
	if has, ok := w.ledger.get(slot{e.Parent, e.Column}, e.Element); ok && e.Value != "" {
		before = pairText(e.Element, has)
	}
	d.Text(e.Column, before, text)
}

func pairText(element, value string) string {
	if value == "" {
		return element
	}
	return element + "=" + value
}

// parentOf returns the name and the unit of a row. They are kept, because a copy of a row is expensive and many
// elements have the same parent. A row that the transaction inserts has neither: the entry has them.
func (w *writer) parentOf(ref unit.Ref) parent {
	if known, ok := w.notes.parents[ref]; ok {
		return known
	}
	row := w.session.row(ref.Table, ref.UUID)
	if row == nil {
		return parent{}
	}
	if w.notes.parents == nil || len(w.notes.parents) >= maxParents {
		w.notes.parents = map[unit.Ref]parent{}
	}
	found := parent{nameOf(row), w.session.schema.ownerOf(ref.Table, row)}
	w.notes.parents[ref] = found
	return found
}

// addDraft records the transaction after its outcome. A refused transaction changed nothing.
func (w *writer) addDraft(err error) {
	switch h := w.engine.cfg.History; {
	case h == nil:
	case err == nil:
		h.Add(&w.notes.draft, history.StateCommitted)
	case lostConnection(err):
		h.Add(&w.notes.draft, history.StateUnknown)
	}
}

// addForeign records foreign changes of a unit.
func (w *writer) addForeign(planned plannedUnit, drifts []Drift) {
	if w.engine.cfg.History == nil || len(drifts) == 0 {
		return
	}
	var d history.Draft
	at := planned.found
	if at.IsZero() {
		at = w.engine.cfg.Now()
	}
	d.Begin(at, history.ByOther)
	for _, drift := range drifts {
		op, column, before, after := happened(drift)
		if d.Change(string(op), drift.Owner, "", drift.Table, drift.UUID, drift.Name) && column != "" {
			d.Text(column, before, after)
		}
	}
	w.engine.cfg.History.Add(&d, string(drifts[0].State))
}

// happened returns the foreign change that a drift describes by its repair.
func happened(d Drift) (op Op, column, before, after string) {
	switch d.Op {
	case OpInsert:
		return OpDelete, "", "", ""
	case OpDelete, "": // a duplicate, or a row with one of our names
		return OpInsert, "", "", ""
	case OpAdd:
		op = OpRemove
	case OpRemove:
		op = OpAdd
	default:
		op = OpUpdate
	}
	return op, d.Column, d.Want, d.Have
}

// addForeignRow records that a row that never belonged to Weft was added or removed.
func (w *writer) addForeignRow(c rowChange) {
	h := w.engine.cfg.History
	t := w.session.schema.Tables[c.ref.Table]
	_, tagged := fieldOf(w.session.schema.Model.Types()[c.ref.Table], "external_ids")
	if h == nil || c.event == RowUpdated || t.Foreign || !tagged && t.ByName == nil {
		return // without external_ids, the row may be ours
	}
	op, name := OpInsert, c.name
	if c.event == RowRemoved {
		op = OpDelete
	} else if row := w.session.row(c.ref.Table, c.ref.UUID); row != nil {
		name = nameOf(row)
	}
	var d history.Draft
	d.Begin(w.engine.cfg.Now(), history.ByOther)
	d.Change(string(op), "", "", c.ref.Table, c.ref.UUID, name)
	h.Add(&d, history.StateSeen)
}

// Latest returns the latest recorded changes that concerns selects, and the time from which on all changes are
// recorded. A limit of 0 returns all.
func (e *Engine) Latest(limit int, concerns func(history.Change, history.Cause) bool) ([]history.Entry, time.Time) {
	if e.cfg.History == nil {
		return nil, time.Time{}
	}
	return e.cfg.History.Latest(limit, concerns), e.cfg.History.Since()
}

// Writer returns how transactions name this program in their comments.
func (e *Engine) Writer() string { return e.cfg.Writer }
