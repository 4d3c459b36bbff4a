package beside

import (
	"context"

	"github.com/weft-network/weft/pkg/ovn/wire"
)

// Snapshot holds rows of several tables from the same moment.
type Snapshot map[string][]wire.Row // table -> rows

// Snapshot selects whole tables in one transaction.
func (d *Database) Snapshot(ctx context.Context, names ...string) (Snapshot, error) {
	operations := make([]wire.Operation, 0, len(names))
	for _, table := range names {
		operations = append(operations, wire.Select(table, wire.All))
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
func (s Snapshot) byUUID(table string) map[string]wire.Row {
	index := make(map[string]wire.Row, len(s[table]))
	for _, r := range s[table] {
		index[r.UUID()] = r
	}
	return index
}
