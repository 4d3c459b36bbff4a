package ovndb

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/unit"
)

// Op is what a Change does to the database.
type Op string

// The operations. Insert, Update and Delete change a row. Add and Remove change one element of a column that several
// units share.
const (
	OpInsert Op = "insert"
	OpUpdate Op = "update"
	OpDelete Op = "delete"
	OpAdd    Op = "add"
	OpRemove Op = "remove"
)

// Change is one difference between a unit and the database, and the operation that removes it.
type Change struct {
	// Owner is the unit that wants the change.
	Owner unit.Key `json:"owner"`
	Op    Op       `json:"op"`
	Table string   `json:"table"`
	UUID  string   `json:"uuid"`
	// Name is the row's name, or its match in tables without names.
	Name string `json:"name,omitempty"`
	// Columns lists the columns concerned, sorted by name. An insert lists all columns that the row sets. An update
	// lists the columns that differ. Add and Remove list the column of the element. A delete lists none.
	Columns []ColumnChange `json:"columns,omitempty"`
}

// ColumnChange is one column with its values as text in OVSDB's notation. Have is empty if the database has no value.
type ColumnChange struct {
	Column string `json:"column"`
	Want   string `json:"want,omitempty"`
	Have   string `json:"have,omitempty"`
}

// changes describes a plan, sorted by owner, table and row. a is the view that the plan was computed from.
func (p *Plan) changes(schema *Schema, a actual) []Change {
	var found []Change
	for _, c := range p.Inserts {
		found = append(found, Change{c.Owner, OpInsert, c.Table, uuidOf(c.Model), nameOf(c.Model), setColumns(schema, c)})
	}
	for _, c := range p.Updates {
		found = append(found, Change{c.Owner, OpUpdate, c.Table, uuidOf(c.Model), nameOf(c.Model), changedValues(schema, c)})
	}
	for _, d := range p.Deletes {
		found = append(found, Change{d.Owner, OpDelete, d.Table, d.UUID, nameOf(a.row(d.Table, d.UUID)), nil})
	}
	for _, e := range p.Adds {
		found = append(found, elementChange(OpAdd, e, a))
	}
	for _, e := range p.Removes {
		found = append(found, elementChange(OpRemove, e, a))
	}
	slices.SortStableFunc(found, func(x, y Change) int {
		return cmp.Or(cmp.Compare(x.Owner, y.Owner), cmp.Compare(x.Table, y.Table), cmp.Compare(x.Name, y.Name),
			cmp.Compare(x.UUID, y.UUID))
	})
	return found
}

// setColumns lists the columns that an insert sets.
func setColumns(schema *Schema, c RowChange) []ColumnChange {
	var columns []ColumnChange
	for _, name := range schema.ownedColumns(c.Table) {
		if value := column(c.Model, name); !isEmpty(value) {
			columns = append(columns, ColumnChange{Column: name, Want: text(value)})
		}
	}
	return columns
}

// changedValues lists the columns that an update changes. Of a merge column it lists only the pairs that the row
// names.
func changedValues(schema *Schema, c RowChange) []ColumnChange {
	var columns []ColumnChange
	for _, name := range c.Columns {
		want, has := column(c.Model, name), column(c.Have, name)
		if slices.Contains(schema.Tables[c.Table].Merge, name) {
			has = restrictTo(has.(map[string]string), want.(map[string]string))
		}
		columns = append(columns, ColumnChange{Column: name, Want: text(want), Have: text(has)})
	}
	return columns
}

// restrictTo returns the pairs whose keys are in keys.
func restrictTo(pairs, keys map[string]string) map[string]string {
	kept := map[string]string{}
	for k := range keys {
		if v, ok := pairs[k]; ok {
			kept[k] = v
		}
	}
	return kept
}

// elementChange describes a membership. An element that is a row's UUID is shown with the row's name.
func elementChange(op Op, e Element, a actual) Change {
	c := Change{Owner: e.Owner, Op: op, Table: e.Parent.Table, UUID: e.Parent.UUID, Name: nameOf(a.row(e.Parent.Table, e.Parent.UUID))}
	value, shown := ColumnChange{Column: e.Column}, e.Element
	if e.Value != "" {
		shown += "=" + e.Value
	}
	if op == OpAdd {
		value.Want = shown
		if has, ok := a.element(slot{e.Parent, e.Column}, e.Element); ok && e.Value != "" {
			value.Have = e.Element + "=" + has
		}
	} else {
		value.Have = shown
	}
	c.Columns = []ColumnChange{value}
	return c
}

// nameOf returns the name of a row, or the match of a row without a name, such as a rule.
func nameOf(m model.Model) string {
	if m == nil {
		return ""
	}
	name, _ := column(m, "name").(string)
	if optional, ok := column(m, "name").(*string); ok && optional != nil {
		name = *optional
	}
	match, _ := column(m, "match").(string)
	return cmp.Or(name, match)
}

// isEmpty reports whether a value is its column's default, which an insert does not name.
func isEmpty(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

func textOfMap[V any](m map[string]V) string {
	pairs := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, fmt.Sprintf("%s=%v", key, m[key]))
	}
	return strings.Join(pairs, ", ")
}

// text formats a column's value as ovs-vsctl does, without brackets. It returns "" for an empty set or map.
func text(value any) string {
	switch v := value.(type) {
	case []string:
		return strings.Join(slices.Sorted(slices.Values(v)), ", ")
	case map[string]string:
		return textOfMap(v)
	case map[string]int:
		return textOfMap(v)
	}
	v := reflect.ValueOf(value)
	switch {
	case !v.IsValid(), v.Kind() == reflect.Pointer && v.IsNil(), v.Kind() == reflect.Slice && v.Len() == 0:
		return ""
	case v.Kind() == reflect.Pointer:
		return fmt.Sprint(v.Elem().Interface())
	}
	return fmt.Sprint(value)
}
