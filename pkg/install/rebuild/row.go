package rebuild

import (
	"context"
	"encoding/json"
	"fmt"
)

// row is a row of a table with values in wire format (RFC 7047 §5.1).
type row map[string]any

// operation is one operation of a transaction (RFC 7047 §5.2).
type operation map[string]any

// all is a condition that matches every row.
var all = []any{}

// is returns a condition that selects the rows in which column equals value.
func is(column string, value any) []any { return []any{[]any{column, "==", value}} }

func selectRows(table string, where []any) operation {
	return operation{"op": "select", "table": table, "where": where}
}

// insert inserts a row. If uuid is empty, the server chooses the UUID.
func insert(table, uuid string, r row) operation {
	o := operation{"op": "insert", "table": table, "row": r}
	if uuid != "" {
		o["uuid"] = uuid
	}
	return o
}

func update(table string, where []any, r row) operation {
	return operation{"op": "update", "table": table, "where": where, "row": r}
}

// await waits up to some milliseconds until the selected rows equal want, or differ from want if until is "!=". The
// server checks again after each change.
func await(table string, where []any, until string, milliseconds int64, want ...row) operation {
	columns := []string{}
	for column := range want[0] {
		columns = append(columns, column)
	}
	return operation{
		"op": "wait", "table": table, "where": where, "columns": columns, "until": until, "rows": want, "timeout": milliseconds,
	}
}

// uuidOf returns a reference in wire format.
func uuidOf(uuid string) any { return []any{"uuid", uuid} }

// uuid returns the UUID of the row.
func (r row) uuid() string { return r.reference("_uuid") }

// reference returns the UUID in a column with at most one UUID, or "".
func (r row) reference(column string) string {
	for _, v := range r.elements(column) {
		if uuid, ok := asUUID(v); ok {
			return uuid
		}
	}
	return ""
}

// references returns the UUIDs in a column with a set of UUIDs.
func (r row) references(column string) []string {
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
func (r row) elements(column string) []any {
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

// text returns the string in a column with at most one string, or "".
func (r row) text(column string) string {
	for _, v := range r.elements(column) {
		if s, ok := v.(string); ok {
			return s
		}
	}
	return ""
}

// number returns the integer in a column, or 0.
func (r row) number(column string) int64 {
	for _, v := range r.elements(column) {
		if n, ok := v.(json.Number); ok {
			i, _ := n.Int64()
			return i
		}
	}
	return 0
}

// pairs returns a column with a map of strings.
func (r row) pairs(column string) map[string]string {
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

// content returns the row without the columns that only the server sets.
func (r row) content() row {
	content := row{}
	for column, value := range r {
		if column != "_uuid" && column != "_version" {
			content[column] = value
		}
	}
	return content
}

// pick returns the requested columns that exist in the row.
func (r row) pick(columns ...string) row {
	picked := row{}
	for _, column := range columns {
		if value, ok := r[column]; ok {
			picked[column] = value
		}
	}
	return picked
}

// snapshot holds rows of several tables from the same moment.
type snapshot map[string][]row // table -> rows

// snapshot selects whole tables in one transaction.
func (d *database) snapshot(ctx context.Context, names ...string) (snapshot, error) {
	operations := make([]operation, 0, len(names))
	for _, table := range names {
		operations = append(operations, selectRows(table, all))
	}
	results, err := d.transact(ctx, operations...)
	if err != nil {
		return nil, err
	}
	s := snapshot{}
	for i, table := range names {
		s[table] = results[i]
	}
	return s, nil
}

// byUUID indexes a table's rows.
func (s snapshot) byUUID(table string) map[string]row {
	index := make(map[string]row, len(s[table]))
	for _, r := range s[table] {
		index[r.uuid()] = r
	}
	return index
}
