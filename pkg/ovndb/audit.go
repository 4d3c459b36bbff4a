package ovndb

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weft-network/weft/pkg/unit"
)

// An audit compares the columns that are not monitored with the ledger and plans the differences. It runs in steps,
// and the writer writes between steps, because a select of all sets of a large network takes seconds. No pod would
// get its port in that time.

// stepSize bounds how many rows and elements one step reads. A larger set is a step of its own, because OVSDB cannot
// read a part of a set.
const stepSize = 1000

// beginAudit compares what units want with the ledger, and schedules the steps that compare the ledger with the
// database. While an audit is in progress, it does nothing.
func (w *writer) beginAudit() {
	if len(w.unaudited) > 0 {
		return
	}
	w.unaudited = w.auditable()
	e := w.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	w.compareAll()
}

// auditable lists the rows with shared columns, from the copy and from the ledger.
func (w *writer) auditable() []unit.Ref {
	refs := map[unit.Ref]struct{}{}
	for s := range w.ledger.slots {
		refs[s.parent] = struct{}{}
	}
	for name, t := range w.session.schema.Tables {
		if len(t.Shared) > 0 && t.Foreign {
			refs[unit.Ref{Table: name}] = struct{}{}
		} else if rows := w.session.cache.Table(name); len(t.Shared) > 0 && rows != nil {
			for id := range rows.RowsShallow() {
				refs[unit.Ref{Table: name, UUID: id}] = struct{}{}
			}
		}
	}
	return slices.Collect(maps.Keys(refs))
}

// auditStep runs the next step of an audit.
func (w *writer) auditStep(ctx context.Context) error {
	n, size := 0, 0
	for n < len(w.unaudited) && (n == 0 || size < stepSize) {
		size += 1 + w.ledger.size(w.unaudited[n], w.session.schema)
		n++
	}
	step := w.unaudited[:n]
	w.unaudited = w.unaudited[n:]
	ops := make([]ovsdb.Operation, n)
	for i, ref := range step {
		ops[i] = selectShared(w.session.schema, ref.Table)
		if ref.UUID != "" {
			ops[i].Where = []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: ref.UUID})}
		}
	}
	results, err := w.session.read(ctx, ops...)
	if err != nil {
		return fmt.Errorf("audit shared columns: %w", err)
	}
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	for i, ref := range step {
		var row ovsdb.Row // empty for a row that is gone, so that its elements leave the ledger
		if len(results[i].Rows) > 0 {
			row = results[i].Rows[0]
		}
		for _, column := range w.session.schema.Tables[ref.Table].Shared {
			s := slot{ref, column}
			for _, element := range w.ledger.setSlot(s, elementsOf(row[column])) {
				w.compare(member{s, element})
			}
		}
	}
	return nil
}

// audit runs a complete audit at once, for callers that need its result before they continue.
func (w *writer) audit(ctx context.Context) error {
	fresh, err := loadLedger(ctx, w.session)
	if err != nil {
		return err
	}
	e := w.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	fresh.made = w.ledger.made
	w.ledger, w.unaudited = fresh, nil
	w.compareAll()
	return nil
}

// compareAll enqueues every unit that wants a value different from the ledger's.
func (w *writer) compareAll() {
	e := w.engine
	for m := range e.desired.elems {
		w.compare(m)
	}
	for s, elements := range w.ledger.slots {
		for element := range elements {
			if m := (member{s, element}); len(e.desired.elems[m]) == 0 {
				w.compare(m)
			}
		}
	}
	for _, owner := range e.drift.owners() {
		e.enqueue(owner)
	}
}

// compare enqueues the units that want a value of an element different from the ledger's.
func (w *writer) compare(m member) {
	e := w.engine
	value, held := w.ledger.get(m.slot, m.element)
	if w.session.hasRow(m.slot.parent.Table, m.slot.parent.UUID) { // if the row is absent, its creation enqueues them
		for _, wish := range e.desired.elems[m] {
			want := unit.Membership{Parent: m.slot.parent, Column: m.slot.column, Element: m.element, Value: wish.value}
			if !w.session.schema.met(want, value, held) {
				e.enqueue(wish.unit)
			}
		}
	}
	if !held || e.desired.wants(m) {
		return
	}
	if owner, ours := e.desired.rows[m.element]; ours {
		e.enqueue(owner)
	}
	if owner, ours := e.desired.rows[m.slot.parent.UUID]; ours &&
		slices.Contains(w.session.schema.Tables[m.slot.parent.Table].Whole, m.slot.column) {
		e.enqueue(owner)
	}
}
