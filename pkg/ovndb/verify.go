package ovndb

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

const (
	// verifyRounds is how often a difference must be seen. The copy may be ahead of the reply to a select, but not
	// twice in the same way.
	verifyRounds = 3
	// namedDifferences bounds the differences that an error names.
	namedDifferences = 10
)

// DivergedError means that the copy of a database differs from the database. It is a defect of Weft, of its client or
// of the server. A new connection makes a new copy.
type DivergedError struct {
	Database    string
	Differences []string // sorted
}

// Error implements error.
func (e *DivergedError) Error() string {
	named := e.Differences[:min(namedDifferences, len(e.Differences))]
	more := ""
	if len(named) < len(e.Differences) {
		more = fmt.Sprintf("; and %d more", len(e.Differences)-len(named))
	}
	return fmt.Sprintf("the copy of database %s differs from it: %s%s", e.Database, strings.Join(named, "; "), more)
}

// Verify compares the copy with a select of every monitored table and column. It returns a DivergedError, or the
// reason why it could not compare. It reads the whole database: use it on demand and in tests.
func (c *Conn) Verify(ctx context.Context) error {
	s := c.session()
	if s == nil {
		return fmt.Errorf("database %s: %w", c.cfg.Schema.Model.Name(), errors.Join(errDisconnected, c.Failure()))
	}
	var standing []string
	for round := range verifyRounds {
		found, err := s.differences(ctx, c.cfg.Where)
		if err != nil {
			return fmt.Errorf("database %s: %w", s.schema.Model.Name(), err)
		}
		if round > 0 {
			found = slices.DeleteFunc(found, func(d string) bool { return !slices.Contains(standing, d) })
		}
		if standing = found; len(standing) == 0 {
			return nil
		}
	}
	slices.Sort(standing)
	return &DivergedError{Database: s.schema.Model.Name(), Differences: standing}
}

// differences compares once.
func (s *session) differences(ctx context.Context, where conditions) ([]string, error) {
	ops := s.selects(where)
	results, err := s.read(ctx, ops...)
	if err != nil {
		return nil, err
	}
	served := map[string]map[string]ovsdb.Row{} // table -> UUID -> row
	for i, op := range ops {
		if served[op.Table] == nil {
			served[op.Table] = map[string]ovsdb.Row{}
		}
		for _, row := range results[i].Rows {
			id, _ := row["_uuid"].(ovsdb.UUID)
			served[op.Table][id.GoUUID] = row
		}
	}
	var found []string
	for table, rows := range served {
		different, err := s.tableDifferences(table, rows)
		if err != nil {
			return nil, err
		}
		found = append(found, different...)
	}
	return found, nil
}

// selects reads what the monitor requests. A row must match one of a monitor's conditions, but all of a select's.
func (s *session) selects(where conditions) []ovsdb.Operation {
	var ops []ovsdb.Operation
	for table := range s.schema.Tables {
		op := ovsdb.Operation{Op: ovsdb.OperationSelect, Table: table,
			Columns: append([]string{"_uuid"}, s.schema.monitoredColumns(table)...)}
		for _, condition := range where[table] {
			op.Where = []ovsdb.Condition{condition}
			ops = append(ops, op)
		}
		if len(where[table]) == 0 {
			ops = append(ops, op)
		}
	}
	return ops
}

func (s *session) tableDifferences(table string, served map[string]ovsdb.Row) ([]string, error) {
	rows := s.cache.Table(table)
	if rows == nil {
		return nil, errDisconnected
	}
	var found []string
	for id := range rows.RowsShallow() {
		if _, ok := served[id]; !ok {
			found = append(found, fmt.Sprintf("%s %s is only in the copy", table, id))
		}
	}
	for id, row := range served {
		cached := rows.Row(id)
		if cached == nil {
			found = append(found, fmt.Sprintf("%s %s is not in the copy", table, id))
			continue
		}
		fresh, err := s.decode(table, row)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", table, id, err)
		}
		for _, name := range s.schema.monitoredColumns(table) {
			if want, have := column(fresh, name), column(cached, name); !equal(want, have) {
				found = append(found, fmt.Sprintf("%s %s.%s is %s, in the copy %s", table, id, name, show(want), show(have)))
			}
		}
	}
	return found, nil
}

// decode converts a selected row into a model.
func (s *session) decode(table string, row ovsdb.Row) (model.Model, error) {
	fresh, err := s.cache.DatabaseModel().NewModel(table)
	if err != nil {
		return nil, err
	}
	info, err := s.cache.DatabaseModel().NewModelInfo(fresh)
	if err != nil {
		return nil, err
	}
	return fresh, s.cache.Mapper().GetRowData(&row, info)
}

// show formats a column's value. A pointer, which represents an optional value, is shown as the value it points to.
func show(value any) string {
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer && !v.IsNil() {
		value = v.Elem().Interface()
	}
	return fmt.Sprintf("%v", value)
}
