package beside

import (
	"context"
	"encoding/json"
	"fmt"
)

// Row is a row of a table with values in wire format (RFC 7047 §5.1).
type Row map[string]any

// Operation is one operation of a transaction (RFC 7047 §5.2).
type Operation map[string]any

// All is a condition that matches every row.
var All = []any{}

// Is returns a condition that selects the rows in which column equals value.
func Is(column string, value any) []any { return []any{[]any{column, "==", value}} }

// SelectRows selects all columns of the rows that match a condition.
func SelectRows(table string, where []any) Operation {
	return Operation{"op": "select", "table": table, "where": where}
}

// Insert inserts a row. If uuid is empty, the server chooses the UUID.
func Insert(table, uuid string, r Row) Operation {
	o := Operation{"op": "insert", "table": table, "row": r}
	if uuid != "" {
		o["uuid"] = uuid
	}
	return o
}

// Update sets columns of the rows that match a condition.
func Update(table string, where []any, r Row) Operation {
	return Operation{"op": "update", "table": table, "where": where, "row": r}
}

// Await waits up to some milliseconds until the selected rows equal want, or differ from want if until is "!=". The
// server checks again after each change.
func Await(table string, where []any, until string, milliseconds int64, want ...Row) Operation {
	columns := []string{}
	for column := range want[0] {
		columns = append(columns, column)
	}
	return Operation{
		"op": "wait", "table": table, "where": where, "columns": columns, "until": until, "rows": want, "timeout": milliseconds,
	}
}

// UUIDOf returns a reference in wire format.
func UUIDOf(uuid string) any { return []any{"uuid", uuid} }

// UUID returns the UUID of the row.
func (r Row) UUID() string { return r.Reference("_uuid") }

// Reference returns the UUID in a column with at most one UUID, or "".
func (r Row) Reference(column string) string {
	for _, v := range r.elements(column) {
		if uuid, ok := asUUID(v); ok {
			return uuid
		}
	}
	return ""
}

// references returns the UUIDs in a column with a set of UUIDs.
func (r Row) references(column string) []string {
	var found []string
	for _, v := range r.elements(column) {
		if uuid, ok := asUUID(v); ok {
			found = append(found, uuid)
		}
	}
	return found
}

func asUUID(value any) (string, bool) {
	pair, _ := value.([]any)
	if len(pair) != 2 || pair[0] != "uuid" {
		return "", false
	}
	uuid, ok := pair[1].(string)
	return uuid, ok
}

// elements returns a column as a set. A single value is a set with one element.
func (r Row) elements(column string) []any {
	switch value := r[column].(type) {
	case nil:
		return nil
	case []any:
		if len(value) == 2 && value[0] == "set" {
			set, _ := value[1].([]any)
			return set
		}
		return []any{value}
	default:
		return []any{value}
	}
}

// Text returns the string in a column with at most one string, or "".
func (r Row) Text(column string) string {
	for _, v := range r.elements(column) {
		if s, ok := v.(string); ok {
			return s
		}
	}
	return ""
}

// Number returns the integer in a column, or 0.
func (r Row) Number(column string) int64 {
	for _, v := range r.elements(column) {
		if n, ok := v.(json.Number); ok {
			i, _ := n.Int64()
			return i
		}
	}
	return 0
}

// Pairs returns a column with a map of strings.
func (r Row) Pairs(column string) map[string]string {
	found := map[string]string{}
	value, _ := r[column].([]any)
	if len(value) != 2 || value[0] != "map" {
		return found
	}
	list, _ := value[1].([]any)
	for _, pair := range list {
		if kv, ok := pair.([]any); ok && len(kv) == 2 {
			found[fmt.Sprint(kv[0])] = fmt.Sprint(kv[1])
		}
	}
	return found
}

// Content returns the row without the columns that only the server sets.
func (r Row) Content() Row {
	content := Row{}
	for column, value := range r {
		if column != "_uuid" && column != "_version" {
			content[column] = value
		}
	}
	return content
}

// pick returns the requested columns that exist in the row.
func (r Row) pick(columns ...string) Row {
	picked := Row{}
	for _, column := range columns {
		if value, ok := r[column]; ok {
			picked[column] = value
		}
	}
	return picked
}

// Snapshot holds rows of several tables from the same moment.
type Snapshot map[string][]Row // table -> rows

// Snapshot selects whole tables in one transaction.
func (d *Database) Snapshot(ctx context.Context, names ...string) (Snapshot, error) {
	operations := make([]Operation, 0, len(names))
	for _, table := range names {
		operations = append(operations, SelectRows(table, All))
	}
	results, err := d.Transact(ctx, operations...)
	if err != nil {
		return nil, err
	}
	s := Snapshot{}
	for i, table := range names {
		s[table] = results[i]
	}
	return s, nil
}

// byUUID indexes a table's rows.
func (s Snapshot) byUUID(table string) map[string]Row {
	index := make(map[string]Row, len(s[table]))
	for _, r := range s[table] {
		index[r.UUID()] = r
	}
	return index
}

// ParseOperations parses operations in wire format, and keeps integers exact.
func ParseOperations(texts []json.RawMessage) ([]Operation, error) {
	operations := make([]Operation, len(texts))
	for i, text := range texts {
		if err := decode(text, &operations[i]); err != nil {
			return nil, fmt.Errorf("cannot parse operation %d: %w", i+1, err)
		}
	}
	return operations, nil
}
