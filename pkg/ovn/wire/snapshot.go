package wire

import (
	"context"
)

// Snapshot holds rows of several tables from the same moment.
type Snapshot map[string][]Row // table -> rows

// Snapshot selects whole tables in one transaction.
func (d *Database) Snapshot(ctx context.Context, names ...string) (Snapshot, error) {
	operations := make([]Operation, 0, len(names))
	for _, table := range names {
		operations = append(operations, Select(table, All))
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

// ByUUID indexes a table's rows.
func (s Snapshot) ByUUID(table string) map[string]Row {
	index := make(map[string]Row, len(s[table]))
	for _, r := range s[table] {
		index[r.UUID()] = r
	}
	return index
}

// InsertAll returns the operations that insert the rows of some tables of a snapshot, UUIDs included.
func (s Snapshot) InsertAll(names ...string) []Operation {
	var operations []Operation
	for _, table := range names {
		for _, row := range s[table] {
			operations = append(operations, Insert(table, row.UUID(), row.Content()))
		}
	}
	return operations
}
