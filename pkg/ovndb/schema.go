package ovndb

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/unit"
)

// Schema adds the engine's information to an OVSDB schema.
type Schema struct {
	Model model.ClientDBModel
	// Tables lists the monitored tables. Units may use only these.
	Tables map[string]Table
	// Fence is the table whose only row carries the epoch in external_ids. It is empty for a database that can have
	// only one writer.
	Fence string
	// TunnelKey returns the tunnel key that a row requests, if the table has tunnel keys.
	TunnelKey func(table string, row model.Model) (TunnelKey, bool, error)

	owned   map[string][]string     // table -> the columns that rows own
	written map[reflect.Type]string // type of the rows in units -> table; nil: Model's types
}

// Table defines who writes which column.
type Table struct {
	// Root tables keep rows without references. The server deletes unreferenced rows of other tables.
	Root bool
	// Ignored columns are read, but OVN or OVS writes them. They are never compared.
	Ignored []string
	// Optional columns are newer than the oldest supported server. They are left out if the server lacks them;
	// callers that need them must check Conn.Has.
	Optional []string
	// Weak columns are shared columns whose references do not keep the referenced rows.
	Weak []string
	// Omitted columns are neither read nor compared, such as statistics that change all the time.
	Omitted []string
	// Merge columns are maps of which a row owns only the keys that it names.
	Merge []string
	// Shared columns are sets or maps that memberships fill, never the row itself.
	Shared []string
	// Whole lists the shared columns in which our rows hold only what units want. In other shared columns, such as
	// the ports of a switch, foreign elements are left alone.
	Whole []string
	// Monitored lists the shared columns that are small enough for the monitor. libovsdb rebuilds a cached set on
	// each change, which costs 10 ms on a switch of 10,000 ports, so the other columns are read by selects.
	Monitored []string
	// Combine has the keys of shared maps whose values other programs change too: key -> the function that returns the value
	// that the database must have, from its present value, empty without one, and the membership's. If it is empty, the
	// database must not have the key.
	Combine map[string]func(have, want string) string
	// Named tables have a column name that identifies rows for OVN and for people, and that the server does not keep
	// unique. A foreign row with one of our names is reported.
	Named bool
	// Supersedes lists tables with a column name. The insertion and the deletion of one of our rows delete, in the same
	// transaction, the foreign rows of these tables that have its name. A table whose names the server keeps unique
	// may name itself: an insertion then replaces the foreign row.
	Supersedes []string
	// Foreign tables hold no rows of ours. Units only have memberships in them.
	Foreign bool
	// ByName maps rows to units in a table that has names and no external_ids. If it is nil, a row has no owner once
	// its unit is forgotten.
	ByName *Naming
}

// Naming maps the name of a row to its unit and back. A row is ours only if its UUID is derived from its name.
type Naming struct {
	Owner func(name string) unit.Key
	Names func(owner unit.Key) []string
}

// TunnelKey is a request for a dataplane key.
type TunnelKey struct {
	// Scope is the space in which the key must be unique, such as "datapaths" or "ports of Logical_Switch <uuid>".
	Scope string
	Key   int
	// Max is the largest valid key. The smallest is 1.
	Max int
}

// NewSchema completes a generated model with a client index on the owner of each row, for tables that have
// external_ids. err is the error of the generated constructor, which cannot fail for generated code.
func NewSchema(m model.ClientDBModel, err error, tables map[string]Table) Schema {
	if err != nil {
		panic(fmt.Sprintf("generated database model: %v", err))
	}
	indexes := map[string][]model.ClientIndex{}
	for table, t := range tables {
		if _, ok := fieldOf(m.Types()[table], "external_ids"); ok && !t.Foreign {
			indexes[table] = []model.ClientIndex{{Columns: []model.ColumnKey{{Column: "external_ids", Key: unit.OwnerKey}}}}
		}
		if t.Named {
			indexes[table] = append(indexes[table], model.ClientIndex{Columns: []model.ColumnKey{{Column: "name"}}})
		}
	}
	m.SetIndexes(indexes)
	s := Schema{Model: m, Tables: tables, owned: map[string][]string{}}
	for table := range tables {
		s.owned[table] = s.listOwnedColumns(table)
	}
	return s
}

// ownedColumns lists the columns of a row that are owned whole or by key, sorted. The list must not be changed.
func (s *Schema) ownedColumns(table string) []string { return s.owned[table] }

// ownerOf returns the unit that owns a row. It is empty for foreign rows.
func (s *Schema) ownerOf(table string, m model.Model) unit.Key {
	naming := s.Tables[table].ByName
	if naming == nil {
		return unit.Key(ownerOf(m))
	}
	if name := nameOf(m); uuidOf(m) == unit.UUID(table, name) {
		return naming.Owner(name)
	}
	return ""
}

// tableOf returns the table of a model.
func (s *Schema) tableOf(m model.Model) (string, error) {
	t := reflect.TypeOf(m)
	if table, ok := s.written[t]; ok {
		return table, nil
	}
	for table, mt := range s.Model.Types() {
		if mt == t {
			if _, ok := s.Tables[table]; !ok {
				return "", fmt.Errorf("table %s is not written by Weft", table)
			}
			return table, nil
		}
	}
	return "", fmt.Errorf("%T is not a row of database %s", m, s.Model.Name())
}

func (s *Schema) listOwnedColumns(table string) []string {
	t := s.Tables[table]
	var columns []string
	for column := range columnsOf(s.Model.Types()[table]) {
		if column == "_uuid" || slices.Contains(t.Ignored, column) || slices.Contains(t.Omitted, column) ||
			slices.Contains(t.Shared, column) {
			continue
		}
		columns = append(columns, column)
	}
	slices.Sort(columns)
	return columns
}

// monitoredColumns lists the columns that the monitor requests, sorted. It names only columns of the model, so that
// new columns of a newer server never reach the client.
func (s *Schema) monitoredColumns(table string) []string {
	t := s.Tables[table]
	var columns []string
	for column := range columnsOf(s.Model.Types()[table]) {
		unread := slices.Contains(t.Shared, column) && !slices.Contains(t.Monitored, column)
		if column == "_uuid" || slices.Contains(t.Omitted, column) || unread {
			continue
		}
		columns = append(columns, column)
	}
	slices.Sort(columns)
	return columns
}

// valueOf returns the value that the database must have of a membership, and whether it must have the element. have is the
// present value.
func (s *Schema) valueOf(m unit.Membership, have string) (value string, present bool) {
	if combine := s.Tables[m.Parent.Table].Combine[m.Element]; combine != nil {
		value = combine(have, m.Value)
		return value, value != ""
	}
	return m.Value, true
}

// met reports whether the database has a membership. held is whether it has the element, and have its value.
func (s *Schema) met(m unit.Membership, have string, held bool) bool {
	value, present := s.valueOf(m, have)
	return held == present && (!held || have == value)
}
