package ovndb

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/unit"
)

// fields caches the results of columnsOf, which are constant for a type. Without it each use of a column would parse
// the struct tags.
var fields sync.Map // reflect.Type -> map[string]int

// columnsOf maps column names to field numbers of a generated struct type, given as a pointer type as libovsdb keeps
// it. The caller must not change the map.
func columnsOf(t reflect.Type) map[string]int {
	if known, ok := fields.Load(t); ok {
		return known.(map[string]int)
	}
	columns := map[string]int{}
	for i := range t.Elem().NumField() {
		if column := t.Elem().Field(i).Tag.Get("ovsdb"); column != "" {
			columns[column] = i
		}
	}
	fields.Store(t, columns)
	return columns
}

func fieldOf(t reflect.Type, column string) (int, bool) {
	i, ok := columnsOf(t)[column]
	return i, ok
}

// column returns the value of a column of a generated struct; nil if the struct has no such column.
func column(m model.Model, name string) any {
	i, ok := fieldOf(reflect.TypeOf(m), name)
	if !ok {
		return nil
	}
	return reflect.ValueOf(m).Elem().Field(i).Interface()
}

// setColumn sets a column of a generated struct. It reports whether the struct has that column with the value's type: the
// names of ACLs are optional, and so pointers.
func setColumn(m model.Model, name string, value any) bool {
	i, ok := fieldOf(reflect.TypeOf(m), name)
	if !ok {
		return false
	}
	field, v := reflect.ValueOf(m).Elem().Field(i), reflect.ValueOf(value)
	if !v.Type().AssignableTo(field.Type()) {
		return false
	}
	field.Set(v)
	return true
}

// shallow copies a generated struct. The copy shares sets and maps.
func shallow(m model.Model) model.Model {
	copied := reflect.New(reflect.TypeOf(m).Elem())
	copied.Elem().Set(reflect.ValueOf(m).Elem())
	return copied.Interface()
}

// uuidOf returns the UUID field of a generated struct; empty for nil.
func uuidOf(m model.Model) string {
	if m == nil {
		return ""
	}
	id, _ := column(m, "_uuid").(string)
	return id
}

// ownerOf returns the unit that a row's external_ids name as its owner. It is empty for foreign rows and in tables
// without external_ids.
func ownerOf(m model.Model) string {
	ids, _ := column(m, "external_ids").(map[string]string)
	return ids[unit.OwnerKey]
}

// equal compares two values of one column. It ignores the order of sets and treats nil as empty.
func equal(a, b any) bool {
	switch x := a.(type) {
	case []string:
		return equalSets(x, b.([]string))
	case map[string]string:
		return maps.Equal(x, b.(map[string]string))
	}
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	switch va.Kind() {
	case reflect.Slice, reflect.Map:
		if va.Len() == 0 && vb.Len() == 0 {
			return true
		}
	}
	return reflect.DeepEqual(a, b)
}

func equalSets(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	if slices.Equal(a, b) {
		return true
	}
	x, y := slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(x, y)
}

// contains reports whether have contains every pair of want.
func contains(have, want map[string]string) bool {
	for k, v := range want {
		if h, ok := have[k]; !ok || h != v {
			return false
		}
	}
	return true
}
