package wire

import (
	"encoding/json"
	"fmt"
)

// Operation is one operation of a transaction (RFC 7047 §5.2).
type Operation map[string]any

// All is a condition that matches every row.
var All = []any{}

// Is returns a condition that selects the rows in which column equals value.
func Is(column string, value any) []any { return []any{[]any{column, "==", value}} }

// Includes returns a condition that selects the rows in which the set of a column includes value.
func Includes(column string, value any) []any { return []any{[]any{column, "includes", value}} }

// Select selects columns of the rows that match a condition; without names, all columns.
func Select(table string, where []any, columns ...string) Operation {
	o := Operation{"op": "select", "table": table, "where": where}
	if len(columns) > 0 {
		o["columns"] = columns
	}
	return o
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

// Delete deletes the rows that match a condition.
func Delete(table string, where []any) Operation {
	return Operation{"op": "delete", "table": table, "where": where}
}

// Comment adds a comment to the server's log of the transaction.
func Comment(text string) Operation { return Operation{"op": "comment", "comment": text} }

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

// ParseOperations parses operations in wire format, and keeps integers exact.
func ParseOperations(texts []json.RawMessage) ([]Operation, error) {
	operations := make([]Operation, len(texts))
	for i, text := range texts {
		if err := Decode(text, &operations[i]); err != nil {
			return nil, fmt.Errorf("cannot parse operation %d: %w", i+1, err)
		}
	}
	return operations, nil
}
