package ovndb

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weft-network/weft/pkg/unit"
)

// Get returns a copy of a cached row by UUID. ok is false if the row is absent or the database is not connected.
func Get[T any](c *Conn, uuid string) (row *T, ok bool) {
	s := c.session()
	if s == nil || uuid == "" {
		return nil, false
	}
	row, ok = s.row(s.tableFor(row), uuid).(*T)
	return row, ok && row != nil
}

// Only returns the only row of a table such as Open_vSwitch.
func Only[T any](c *Conn) (row *T, ok bool) {
	s := c.session()
	if s == nil {
		return nil, false
	}
	row, ok = s.row(s.tableFor(row), "").(*T)
	return row, ok && row != nil
}

// Find returns the cached rows that have the model's value in an indexed column of the schema, such as name.
func Find[T any](c *Conn, like *T) (row *T, ok bool) {
	s := c.session()
	if s == nil {
		return nil, false
	}
	_, m, err := s.cache.Table(s.tableFor(like)).RowByModel(like)
	if err != nil || m == nil {
		return nil, false
	}
	row, ok = m.(*T)
	return row, ok
}

// List returns copies of all cached rows of a table that keep accepts. It scans the table: use it only at start and
// for sweeps.
func List[T any](c *Conn, keep func(*T) bool) []*T {
	found := Shared(c, keep)
	for i := range found {
		found[i], _ = model.Clone(found[i]).(*T)
	}
	return found
}

// Shared is List without copies. The rows must not be changed.
func Shared[T any](c *Conn, keep func(*T) bool) (found []*T) {
	s := c.session()
	if s == nil {
		return nil
	}
	for _, shared := range s.cache.Table(s.tableFor((*T)(nil))).RowsShallow() {
		if row, ok := shared.(*T); ok && keep(row) {
			found = append(found, row)
		}
	}
	return found
}

func (s *session) tableFor(m model.Model) string {
	return s.cache.DatabaseModel().FindTable(reflect.TypeOf(m))
}

// ownedBy lists the rows that name the unit as their owner, by index. It searches the tables in which units of that
// kind have had rows.
func (s *session) ownedBy(key unit.Key) []unit.Ref {
	s.examples.mu.Lock()
	defer s.examples.mu.Unlock()
	var refs []unit.Ref
	for table := range s.examples.tables[key.Kind()] {
		if naming := s.schema.Tables[table].ByName; naming != nil {
			refs = append(refs, s.named(table, naming.Names(key))...)
			continue
		}
		like := s.example(table, key)
		if like == nil {
			continue
		}
		rows, err := s.cache.Table(table).RowsByModels(like)
		if err != nil {
			continue
		}
		for uuid, row := range rows {
			if ownerOf(row) == string(key) {
				refs = append(refs, unit.Ref{Table: table, UUID: uuid})
			}
		}
	}
	return refs
}

// examples are reused rows for look-ups by owner, because a row is large, and the tables to look in.
type examples struct {
	mu     sync.Mutex
	known  map[string]example             // by table
	tables map[string]map[string]struct{} // kind of unit -> tables in which units of the kind have had rows
}

// has records that a unit has a row in a table.
func (s *session) has(owner unit.Key, table string) {
	if owner == "" {
		return
	}
	s.examples.mu.Lock()
	defer s.examples.mu.Unlock()
	kind := owner.Kind()
	if _, known := s.examples.tables[kind][table]; known {
		return
	}
	if s.examples.tables == nil {
		s.examples.tables = map[string]map[string]struct{}{}
	}
	add(s.examples.tables, kind, table, struct{}{})
}

// findOwners records the tables of all rows. A row that comes later is recorded before its owner is planned again.
func (s *session) findOwners() {
	for table, t := range s.schema.Tables {
		if t.Foreign {
			continue
		}
		for _, row := range s.cache.Table(table).RowsShallow() {
			s.has(s.schema.ownerOf(table, row), table)
		}
	}
}

// example is one row and its external_ids. It is empty for tables without external_ids and for foreign tables.
type example struct {
	row []model.Model
	ids map[string]string
}

// example returns the table's example with the unit's key, valid until the next call. s.examples.mu must be held.
func (s *session) example(table string, key unit.Key) []model.Model {
	found, ok := s.examples.known[table]
	if !ok {
		found.ids = map[string]string{}
		if like, err := s.cache.DatabaseModel().NewModel(table); err == nil && !s.schema.Tables[table].Foreign &&
			setColumn(like, "external_ids", found.ids) {
			found.row = []model.Model{like}
		}
		if s.examples.known == nil {
			s.examples.known = map[string]example{}
		}
		s.examples.known[table] = found
	}
	found.ids[unit.OwnerKey] = string(key)
	return found.row
}

// named lists our rows with these names.
func (s *session) named(table string, names []string) (refs []unit.Ref) {
	for _, name := range names {
		if id := unit.UUID(table, name); s.cache.Table(table).HasRow(id) {
			refs = append(refs, unit.Ref{Table: table, UUID: id})
		}
	}
	return refs
}

// owners counts the rows of every unit in the database.
func (s *session) owners() map[unit.Key]int {
	found := map[unit.Key]int{}
	for table, t := range s.schema.Tables {
		if t.Foreign {
			continue
		}
		for _, row := range s.cache.Table(table).RowsShallow() {
			if owner := s.schema.ownerOf(table, row); owner != "" {
				found[owner]++
			}
		}
	}
	return found
}

// foreignNamesakes lists the foreign rows that have the name of m.
func (s *session) foreignNamesakes(table string, m model.Model) []string {
	name := nameOf(m)
	like, err := s.cache.DatabaseModel().NewModel(table)
	if name == "" || err != nil || !setColumn(like, "name", name) {
		return nil
	}
	rows, err := s.cache.Table(table).RowsByModels([]model.Model{like})
	if err != nil {
		return nil
	}
	var found []string
	for uuid, row := range rows {
		if uuid != uuidOf(m) && ownerOf(row) == "" && nameOf(row) == name {
			found = append(found, uuid)
		}
	}
	slices.Sort(found)
	return found
}

// Elements selects the elements of a row's shared column that is not monitored, such as a bridge's ports.
func (c *Conn) Elements(ctx context.Context, table, uuid, column string) ([]string, error) {
	s := c.session()
	if s == nil {
		return nil, errDisconnected
	}
	results, err := s.read(ctx, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: table, Columns: []string{column},
		Where: []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: uuid})}})
	if err != nil || len(results[0].Rows) == 0 {
		return nil, err
	}
	return slices.Sorted(maps.Keys(elementsOf(results[0].Rows[0][column]))), nil
}
