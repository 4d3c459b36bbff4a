package ovndb

import (
	"context"
	"fmt"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// confirm reads the combined elements of a committed plan again. If another program has changed one of them between our reading and
// our writing, its value stayed, and the units that want something of it are planned once more.
func (w *writer) confirm(ctx context.Context, p *Plan) error {
	var elements []Element
	var ops []ovsdb.Operation
	for _, m := range slices.Concat(p.Adds, p.Removes) {
		if w.session.schema.Tables[m.Parent.Table].Combine[m.Element] == nil {
			continue
		}
		elements = append(elements, m)
		ops = append(ops, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: m.Parent.Table, Columns: []string{m.Column},
			Where: w.session.where(m.Parent)})
	}
	if len(elements) == 0 {
		return nil
	}
	results, err := w.session.read(ctx, ops...)
	if err != nil {
		return fmt.Errorf("confirm combined values: %w", err)
	}
	e := w.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, m := range elements {
		present := map[string]string{}
		if len(results[i].Rows) > 0 {
			present = elementsOf(results[i].Rows[0][m.Column])
		}
		w.correct(m, present)
	}
	return nil
}

// correct makes the ledger agree with the present value of a combined element, and enqueues the units that do not agree with it.
func (w *writer) correct(m Element, present map[string]string) {
	id, e := memberOf(m.Membership), w.engine
	value, held := present[m.Element]
	if held {
		w.ledger.add(id.slot, m.Element, value)
	} else {
		w.ledger.remove(id.slot, m.Element)
	}
	for _, wish := range e.desired.elems[id] {
		want := m.Membership
		if want.Value = wish.value; !w.session.schema.met(want, value, held) {
			e.desired.units[wish.unit].change()
			e.enqueue(wish.unit)
		}
	}
}
