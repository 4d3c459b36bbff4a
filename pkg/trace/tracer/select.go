package tracer

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
)

// operation is an operation of a transaction (RFC 7047 §5.2).
type operation map[string]any

// row holds the columns of a row in wire format.
type row map[string]json.RawMessage

// uuid returns the UUID of a row.
func (r row) uuid() string {
	var pair [2]string
	_ = json.Unmarshal(r["_uuid"], &pair) // every selected row has one
	return pair[1]
}

// selectAll selects columns of all rows of a table.
func selectAll(table string, columns ...string) operation {
	return operation{"op": "select", "table": table, "where": []any{}, "columns": append([]string{"_uuid"}, columns...)}
}

// selectIs selects the rows in which a column has a value.
func selectIs(table, column string, value any, columns ...string) operation {
	o := selectAll(table, columns...)
	o["where"] = []any{[]any{column, "==", value}}
	return o
}

// read runs operations that only select, in one transaction, and returns the rows of each.
func read(ctx context.Context, socket, database string, operations ...operation) ([][]row, error) {
	if len(operations) == 0 {
		return nil, nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", database, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	params := []any{database}
	for _, o := range operations {
		params = append(params, o)
	}
	if err := json.NewEncoder(conn).Encode(map[string]any{"id": 0, "method": "transact", "params": params}); err != nil {
		return nil, fmt.Errorf("database %s: %w", database, err)
	}
	var reply struct {
		Result []struct {
			Rows    []row  `json:"rows"`
			Error   string `json:"error"`
			Details string `json:"details"`
		} `json:"result"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return nil, fmt.Errorf("database %s: cannot read: %w", database, err)
	}
	if len(reply.Result) < len(operations) {
		return nil, fmt.Errorf("database %s: %s", database, reply.Error)
	}
	rows := make([][]row, len(operations))
	for i := range operations {
		if r := reply.Result[i]; r.Error != "" {
			return nil, fmt.Errorf("database %s: %v: %s: %s", database, operations[i]["table"], r.Error, r.Details)
		}
		rows[i] = reply.Result[i].Rows
	}
	return rows, nil
}
