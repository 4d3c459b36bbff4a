package ovndb

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weft-network/weft/pkg/unit"
)

// slot is one shared column of one row.
type slot struct {
	parent unit.Ref
	column string
}

// ledger holds the elements of all shared columns as they are in the database. It is loaded by selects and then
// updated by our own commits, because the large columns are not monitored.
type ledger struct {
	slots map[slot]map[string]string // element -> value of a map's pair, "" for sets
	// only for sets; most elements are in one slot, for which a map would be large
	byElement map[string][]slot
	// made counts by row our insertions that the copy has not reported. A removal that the copy reports for such a row is
	// that of a predecessor.
	made map[string]int
}

func newLedger() *ledger {
	return &ledger{slots: map[slot]map[string]string{}, byElement: map[string][]slot{}, made: map[string]int{}}
}

// reported records that the copy has reported an insertion of a row.
func (l *ledger) reported(row string) {
	if l.made[row]--; l.made[row] <= 0 {
		delete(l.made, row)
	}
}

// get returns the value of an element and whether the slot holds it.
func (l *ledger) get(s slot, element string) (string, bool) {
	value, ok := l.slots[s][element]
	return value, ok
}

// elements lists the elements of a slot, sorted.
func (l *ledger) elements(s slot) []string { return slices.Sorted(maps.Keys(l.slots[s])) }

// holders returns the slots that hold the element.
func (l *ledger) holders(element string) []slot {
	return slices.Clone(l.byElement[element])
}

func (l *ledger) add(s slot, element, value string) {
	if l.slots[s] == nil {
		l.slots[s] = map[string]string{}
	}
	if _, known := l.slots[s][element]; !known && value == "" { // holders of a map's key are not needed, and there may be many
		l.byElement[element] = append(l.byElement[element], s)
	}
	l.slots[s][element] = value
}

func (l *ledger) remove(s slot, element string) {
	delete(l.slots[s], element)
	if len(l.slots[s]) == 0 {
		delete(l.slots, s)
	}
	if left := slices.DeleteFunc(l.byElement[element], func(other slot) bool { return other == s }); len(left) > 0 {
		l.byElement[element] = left
	} else {
		delete(l.byElement, element)
	}
}

// forgetRow drops a deleted row, as a parent and as an element, because the server removed it from every set.
func (l *ledger) forgetRow(ref unit.Ref, columns []string) {
	for _, column := range columns {
		l.setSlot(slot{ref, column}, nil)
	}
	for _, s := range l.holders(ref.UUID) {
		l.remove(s, ref.UUID)
	}
}

// setSlot replaces the elements of one slot. It returns the elements that were added, removed or changed.
func (l *ledger) setSlot(s slot, elements map[string]string) (changed []string) {
	for element := range l.slots[s] {
		if _, keep := elements[element]; !keep {
			l.remove(s, element)
			changed = append(changed, element)
		}
	}
	for element, value := range elements {
		if had, ok := l.get(s, element); !ok || had != value {
			l.add(s, element, value)
			changed = append(changed, element)
		}
	}
	return changed
}

// size returns how many elements a row holds.
func (l *ledger) size(ref unit.Ref, schema *Schema) (n int) {
	for _, column := range schema.Tables[ref.Table].Shared {
		n += len(l.slots[slot{ref, column}])
	}
	return n
}

// loadLedger reads every shared column by select, all tables in one transaction.
func loadLedger(ctx context.Context, s *session) (*ledger, error) {
	var ops []ovsdb.Operation
	for table, t := range s.schema.Tables {
		if len(t.Shared) > 0 {
			ops = append(ops, selectShared(s.schema, table))
		}
	}
	l := newLedger()
	if len(ops) == 0 {
		return l, nil
	}
	results, err := s.read(ctx, ops...)
	if err != nil {
		return nil, fmt.Errorf("load shared columns: %w", err)
	}
	for i, op := range ops {
		for _, row := range results[i].Rows {
			l.loadRow(s.schema, op.Table, row)
		}
	}
	return l, nil
}

// selectShared reads the shared columns of a table.
func selectShared(schema *Schema, table string) ovsdb.Operation {
	return ovsdb.Operation{Op: ovsdb.OperationSelect, Table: table, Columns: append([]string{"_uuid"}, schema.Tables[table].Shared...)}
}

func (l *ledger) loadRow(schema *Schema, table string, row ovsdb.Row) {
	id, _ := row["_uuid"].(ovsdb.UUID)
	t := schema.Tables[table]
	ref := unit.Ref{Table: table, UUID: id.GoUUID}
	if t.Foreign {
		ref.UUID = "" // the table's only row
	}
	for _, column := range t.Shared {
		for element, value := range elementsOf(row[column]) {
			l.add(slot{ref, column}, element, value)
		}
	}
}

// elementsOf converts a column of a select's result into elements. A set of one element arrives as the bare atom.
func elementsOf(value any) map[string]string {
	elements := map[string]string{}
	switch v := value.(type) {
	case ovsdb.OvsSet:
		for _, e := range v.GoSet {
			elements[atom(e)] = ""
		}
	case ovsdb.OvsMap:
		for k, e := range v.GoMap {
			elements[atom(k)] = atom(e)
		}
	case nil:
	default:
		elements[atom(v)] = ""
	}
	return elements
}

func atom(v any) string {
	if id, ok := v.(ovsdb.UUID); ok {
		return id.GoUUID
	}
	return fmt.Sprint(v)
}
