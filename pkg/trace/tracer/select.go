package tracer

import (
	"context"
	"encoding/json"
	"fmt"
	"net"

	"github.com/weft-network/weft/pkg/ovn/wire"
)

// selectAll selects columns of all rows of a table.
func selectAll(table string, columns ...string) wire.Operation {
	return selectWhere(table, wire.All, columns...)
}

// selectIs selects the rows in which a column has a value.
func selectIs(table, column string, value any, columns ...string) wire.Operation {
	return selectWhere(table, wire.Is(column, value), columns...)
}

// selectWhere selects columns of the rows that match a condition, and their UUIDs.
func selectWhere(table string, where []any, columns ...string) wire.Operation {
	return wire.Select(table, where, append([]string{"_uuid"}, columns...)...)
}

// read runs operations that only select, in one transaction, and returns the rows of each.
func read(ctx context.Context, socket, database string, operations ...wire.Operation) ([][]wire.Row, error) {
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
			Rows    []wire.Row `json:"rows"`
			Error   string     `json:"error"`
			Details string     `json:"details"`
		} `json:"result"`
		Error json.RawMessage `json:"error"`
	}
	decoder := json.NewDecoder(conn)
	decoder.UseNumber()
	if err := decoder.Decode(&reply); err != nil {
		return nil, fmt.Errorf("database %s: cannot read: %w", database, err)
	}
	if len(reply.Result) < len(operations) {
		return nil, fmt.Errorf("database %s: %s", database, reply.Error)
	}
	rows := make([][]wire.Row, len(operations))
	for i := range operations {
		if r := reply.Result[i]; r.Error != "" {
			return nil, fmt.Errorf("database %s: %v: %s: %s", database, operations[i]["table"], r.Error, r.Details)
		}
		rows[i] = reply.Result[i].Rows
	}
	return rows, nil
}
