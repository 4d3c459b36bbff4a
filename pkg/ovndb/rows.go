package ovndb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/unit"
)

// Rows returns all rows of all monitored tables, complete, by table. It reads the columns that are not monitored by
// select in one transaction. During writes, a row and such a column may be from two moments. The rows must not be
// changed, because they share what they can with the copy of the database: libovsdb replaces a changed row.
func (c *Conn) Rows(ctx context.Context) (map[string][]model.Model, error) {
	s := c.session()
	if s == nil {
		return nil, fmt.Errorf("database %s: %w", c.cfg.Schema.Model.Name(), errors.Join(errDisconnected, c.Failure()))
	}
	shared, err := loadLedger(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", c.cfg.Schema.Model.Name(), err)
	}
	all := make(map[string][]model.Model, len(s.schema.Tables))
	for table, t := range s.schema.Tables {
		written := c.cfg.Schema.Model.Types()[table]
		rows := s.cache.Table(table)
		if rows == nil {
			continue // the server's schema has no such table
		}
		all[table] = make([]model.Model, 0, rows.Len())
		for id, row := range rows.RowsShallow() {
			if len(t.Shared) > 0 {
				row = shallow(row)
			}
			for _, name := range t.Shared {
				shared.fill(row, slot{refOf(table, t, id), name})
			}
			all[table] = append(all[table], converted(row, written))
		}
	}
	return all, nil
}

// refOf returns the parent reference that memberships use for a row.
func refOf(table string, t Table, id string) unit.Ref {
	if t.Foreign {
		id = ""
	}
	return unit.Ref{Table: table, UUID: id}
}

// fill sets a shared column of a row from the ledger. Sets are sorted.
func (l *ledger) fill(row model.Model, s slot) {
	elements := l.slots[s]
	switch column(row, s.column).(type) {
	case []string:
		setColumn(row, s.column, slices.Sorted(maps.Keys(elements)))
	case map[string]string:
		setColumn(row, s.column, maps.Clone(elements))
	case *string: // a set of at most one
		for element := range elements {
			setColumn(row, s.column, &element)
		}
	}
}
