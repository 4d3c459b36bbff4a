package beside

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weft-network/weft/pkg/ovn/wire"
)

// Serve creates a database from a schema in a folder and serves it. sockets is the folder of its sockets.
func Serve(ctx context.Context, p Programs, sockets, folder, name, database string, schema json.RawMessage) (*Server, *Database, error) {
	file := filepath.Join(folder, name+".ovsschema")
	if err := os.WriteFile(file, schema, 0o600); err != nil {
		return nil, nil, err
	}
	s, err := StartServer(ctx, p, sockets, name, filepath.Join(folder, name+".db"), file)
	if err != nil {
		return nil, nil, err
	}
	d, err := Dial(ctx, s.Remote, database)
	if err != nil {
		s.Stop()
	}
	return s, d, err
}

// InsertAll returns the operations that insert the rows of some tables of a snapshot, UUIDs included.
func (s Snapshot) InsertAll(names ...string) []wire.Operation {
	var operations []wire.Operation
	for _, table := range names {
		for _, row := range s[table] {
			operations = append(operations, wire.Insert(table, row.UUID(), row.Content()))
		}
	}
	return operations
}

// AwaitNumber returns when a column of the selected row has reached a number. It waits by wait operations, which the
// server ends when the column changes.
func (d *Database) AwaitNumber(ctx context.Context, table string, where []any, column string, least int64) error {
	for {
		results, err := d.Transact(ctx, wire.Select(table, where))
		if err != nil {
			return err
		}
		if len(results[0]) != 1 {
			return fmt.Errorf("database %s: table %s has %d matching rows, want 1", d.Name, table, len(results[0]))
		}
		have := results[0][0].Number(column)
		if have >= least {
			return nil
		}
		if _, err := d.Transact(ctx, wire.Await(table, where, "!=", time.Hour.Milliseconds(), wire.Row{column: have})); err != nil {
			return fmt.Errorf("%s is %d, want %d: %w", column, have, least, err)
		}
	}
}
