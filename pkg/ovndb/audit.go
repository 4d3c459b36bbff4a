package ovndb

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weft-network/weft/pkg/unit"
)

// An audit compares the columns that are not monitored with what the ledger believes, and plans what differs. It goes in steps, between which the
// writer writes: a select of all sets of a large network takes seconds, in which no pod would get its port.

// stepSize bounds what one step reads, in rows and elements. A larger set is a step of its own: OVSDB does not read parts of a set.
const stepSize = 1000

// beginAudit compares what units want with the ledger, and leaves the ledger's own comparison to the steps. An audit that is not over goes on.
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

// auditable lists the rows with shared columns, those that are here and those that the ledger believes in.
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

// auditStep does the next step of an audit.
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
		var row ovsdb.Row // what a row held that is gone is held no more
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

// audit is a whole one at once, for what cannot go on without.
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

// compareAll asks for plans of all units that want something else than the ledger holds.
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

// compare asks for plans of the units concerned if they want something else of an element than the ledger holds.
func (w *writer) compare(m member) {
	e := w.engine
	value, held := w.ledger.get(m.slot, m.element)
	if w.session.hasRow(m.slot.parent.Table, m.slot.parent.UUID) { // else its coming asks for them
		for _, wish := range e.desired.elems[m] {
			if !held || value != wish.value {
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
	if owner, ours := e.desired.rows[m.slot.parent.UUID]; ours && slices.Contains(w.session.schema.Tables[m.slot.parent.Table].Whole, m.slot.column) {
		e.enqueue(owner)
	}
}
