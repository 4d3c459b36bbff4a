package ovndb

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Has reports whether the server has an optional column. Without a connection it answers for the last one, and before
// the first it returns false.
func (c *Conn) Has(table, column string) bool {
	c.mu.RLock()
	served := c.served
	c.mu.RUnlock()
	if served == nil {
		return false
	}
	_, ok := fieldOf(served.Model.Types()[table], column)
	return ok
}

// servedBy returns the schema without the optional columns that a server lacks, because libovsdb rejects a model that
// has more columns than the server. Rows in units keep their types.
func (s *Schema) servedBy(db ovsdb.DatabaseSchema) (*Schema, error) {
	models, lacks := map[string]model.Model{}, false
	for table, rowType := range s.Model.Types() {
		served := db.Table(table)
		lacking := func(column string) bool { return served != nil && served.Column(column) == nil }
		if slices.ContainsFunc(s.Tables[table].Optional, lacking) {
			rowType, lacks = without(rowType, func(column string) bool {
				return slices.Contains(s.Tables[table].Optional, column) && lacking(column)
			}), true
		}
		models[table] = reflect.New(rowType.Elem()).Interface()
	}
	if !lacks {
		return s, nil
	}
	smaller, err := model.NewClientDBModel(s.Model.Name(), models)
	if err != nil {
		return nil, fmt.Errorf("database model without optional columns: %w", err)
	}
	fitting := NewSchema(smaller, nil, s.Tables)
	fitting.Fence, fitting.TunnelKey, fitting.written = s.Fence, s.TunnelKey, map[reflect.Type]string{}
	for table, rowType := range s.Model.Types() {
		fitting.written[rowType] = table
	}
	return &fitting, nil
}

// without returns a row type that lacks some columns.
func without(rowType reflect.Type, lacking func(column string) bool) reflect.Type {
	var fields []reflect.StructField
	for i := range rowType.Elem().NumField() {
		if field := rowType.Elem().Field(i); !lacking(field.Tag.Get("ovsdb")) {
			fields = append(fields, reflect.StructField{Name: field.Name, Type: field.Type, Tag: field.Tag})
		}
	}
	return reflect.PointerTo(reflect.StructOf(fields))
}

// served converts a unit's row to the type that the session's client uses.
func (s *Schema) served(table string, m model.Model) model.Model {
	if _, ours := s.written[reflect.TypeOf(m)]; !ours {
		return m
	}
	return converted(m, s.Model.Types()[table])
}

// converted converts a row to another type. It drops columns that only one of the types has.
func converted(m model.Model, to reflect.Type) model.Model {
	if reflect.TypeOf(m) == to {
		return m
	}
	row := reflect.New(to.Elem()).Interface()
	for column := range columnsOf(to) {
		if i, ok := fieldOf(reflect.TypeOf(m), column); ok {
			setColumn(row, column, reflect.ValueOf(m).Elem().Field(i).Interface())
		}
	}
	return row
}
