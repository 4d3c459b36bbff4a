package ovndb

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weft-network/weft/pkg/unit"
)

// operations converts a plan into the operations of one transaction. Memberships of one column become one mutation.
func (s *session) operations(p *Plan) ([]ovsdb.Operation, error) {
	var ops []ovsdb.Operation
	for _, c := range p.Inserts {
		row, err := s.columns(c.Table, c.Model, nil)
		if err != nil {
			return nil, err
		}
		ops = append(ops, ovsdb.Operation{Op: ovsdb.OperationInsert, Table: c.Table, UUID: uuidOf(c.Model), Row: row})
	}
	for _, c := range p.Updates {
		update, err := s.updateOperations(c)
		if err != nil {
			return nil, err
		}
		ops = append(ops, update...)
	}
	ops = append(ops, s.mutations(p.Removes, ovsdb.MutateOperationDelete)...)
	ops = append(ops, s.mutations(p.Adds, ovsdb.MutateOperationInsert)...)
	for _, ref := range p.Deletes {
		ops = append(ops, ovsdb.Operation{Op: ovsdb.OperationDelete, Table: ref.Table, Where: s.where(ref.Ref)})
	}
	return ops, nil
}

// updateOperations writes whole columns by update and the owned keys of merge columns by mutations.
func (s *session) updateOperations(c RowChange) ([]ovsdb.Operation, error) {
	ref := unit.Ref{Table: c.Table, UUID: uuidOf(c.Model)}
	var whole []string
	var ops []ovsdb.Operation
	for _, name := range c.Columns {
		if !slices.Contains(s.schema.Tables[c.Table].Merge, name) {
			whole = append(whole, name)
			continue
		}
		ops = append(ops, s.mergeOperation(ref, name, column(c.Model, name).(map[string]string)))
	}
	if len(whole) == 0 {
		return ops, nil
	}
	row, err := s.columns(c.Table, c.Model, whole)
	if err != nil {
		return nil, err
	}
	return append(ops, ovsdb.Operation{Op: ovsdb.OperationUpdate, Table: c.Table, Where: s.where(ref), Row: row}), nil
}

func (s *session) mergeOperation(ref unit.Ref, name string, pairs map[string]string) ovsdb.Operation {
	var members []Element
	for k, v := range pairs {
		members = append(members, Element{Membership: unit.Membership{Parent: ref, Column: name, Element: k, Value: v}})
	}
	return ovsdb.Operation{Op: ovsdb.OperationMutate, Table: ref.Table, Where: s.where(ref),
		Mutations: s.mapMutations(name, members, ovsdb.MutateOperationInsert)}
}

// columns encodes the named columns of a row. nil selects the columns of an insert, which are all that differ from
// the default.
func (s *session) columns(table string, m model.Model, names []string) (ovsdb.Row, error) {
	info, err := s.info(table, m)
	if err != nil {
		return nil, err
	}
	row := ovsdb.Row{}
	for name, schema := range info.Metadata.TableSchema.Columns {
		if names != nil && !slices.Contains(names, name) {
			continue
		}
		value, err := info.FieldByColumn(name)
		if err != nil || names == nil && ovsdb.IsDefaultValue(schema, value) {
			continue // the model lacks the column, or the column is empty
		}
		if row[name], err = ovsdb.NativeToOvs(schema, value); err != nil {
			return nil, fmt.Errorf("%s.%s: %w", table, name, err)
		}
	}
	return row, nil
}

// mutations groups memberships by slot, in a stable order.
func (s *session) mutations(members []Element, mutator ovsdb.Mutator) []ovsdb.Operation {
	bySlot := map[slot][]Element{}
	var slots []slot
	for _, m := range members {
		key := slot{m.Parent, m.Column}
		if bySlot[key] == nil {
			slots = append(slots, key)
		}
		bySlot[key] = append(bySlot[key], m)
	}
	slices.SortFunc(slots, func(a, b slot) int {
		return cmp.Or(cmp.Compare(a.parent.Table, b.parent.Table), cmp.Compare(a.parent.UUID, b.parent.UUID),
			cmp.Compare(a.column, b.column))
	})
	var ops []ovsdb.Operation
	for _, key := range slots {
		ops = append(ops, ovsdb.Operation{Op: ovsdb.OperationMutate, Table: key.parent.Table, Where: s.where(key.parent),
			Mutations: s.slotMutations(key, bySlot[key], mutator)})
	}
	return ops
}

func (s *session) slotMutations(key slot, members []Element, mutator ovsdb.Mutator) []ovsdb.Mutation {
	columnSchema := s.db.Table(key.parent.Table).Column(key.column)
	if columnSchema.Type == ovsdb.TypeMap {
		return s.mapMutations(key.column, members, mutator)
	}
	set := ovsdb.OvsSet{}
	for _, m := range members {
		if columnSchema.TypeObj.Key.Type == ovsdb.TypeUUID {
			set.GoSet = append(set.GoSet, ovsdb.UUID{GoUUID: m.Element})
		} else {
			set.GoSet = append(set.GoSet, m.Element)
		}
	}
	return []ovsdb.Mutation{{Column: key.column, Mutator: mutator, Value: set}}
}

// mapMutations deletes the keys first, because inserting an existing key changes nothing and still counts as done. The key of a
// combined element is deleted only with the value that the new one was computed from. If another program has changed it since, its
// value stays, and the engine combines again when it sees that.
func (s *session) mapMutations(column string, members []Element, mutator ovsdb.Mutator) []ovsdb.Mutation {
	keys, pairs, seen := ovsdb.OvsSet{}, ovsdb.OvsMap{GoMap: map[any]any{}}, ovsdb.OvsMap{GoMap: map[any]any{}}
	for _, m := range members {
		if s.schema.Tables[m.Parent.Table].Combine[m.Element] != nil {
			seen.GoMap[m.Element] = m.Have
		} else {
			keys.GoSet = append(keys.GoSet, m.Element)
		}
		pairs.GoMap[m.Element] = m.Value
	}
	var mutations []ovsdb.Mutation
	if len(keys.GoSet) > 0 {
		mutations = append(mutations, ovsdb.Mutation{Column: column, Mutator: ovsdb.MutateOperationDelete, Value: keys})
	}
	if len(seen.GoMap) > 0 {
		mutations = append(mutations, ovsdb.Mutation{Column: column, Mutator: ovsdb.MutateOperationDelete, Value: seen})
	}
	if mutator == ovsdb.MutateOperationInsert {
		mutations = append(mutations, ovsdb.Mutation{Column: column, Mutator: mutator, Value: pairs})
	}
	return mutations
}

// where selects one row. An empty UUID means the only row of the table, which is looked up in the copy.
func (s *session) where(ref unit.Ref) []ovsdb.Condition {
	if ref.UUID == "" {
		ref.UUID = uuidOf(s.row(ref.Table, ""))
	}
	return []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: ref.UUID})}
}
