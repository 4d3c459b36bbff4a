package ovndb

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/unit"
)

// Schema says of a database what the engine must know beyond the OVSDB schema.
type Schema struct {
	Model model.ClientDBModel
	// Tables lists the tables that are monitored. Units may only use these.
	Tables map[string]Table
	// Fence is the table whose only row carries the epoch in external_ids; empty for a database with one possible writer.
	Fence string
	// TunnelKey returns the tunnel key that a row requests, where the table has one.
	TunnelKey func(table string, row model.Model) (TunnelKey, bool, error)

	written map[reflect.Type]string // type of the rows in units -> table; nil: those of Model
}

// Table says who writes which column.
type Table struct {
	// Root tables keep rows that nobody refers to; the server collects the others.
	Root bool
	// Ignored columns are read but written by OVN or OVS: never compared.
	Ignored []string
	// Optional columns are newer than the oldest server that Weft works with. Where one lacks them, they are left out: whoever needs them asks
	// Conn.Has before.
	Optional []string
	// Weak columns are shared ones whose references do not keep the rows that they name.
	Weak []string
	// Omitted columns are neither read nor compared (statistics that change all the time).
	Omitted []string
	// Merge columns are maps in which only the keys that a row names are owned.
	Merge []string
	// Shared columns are sets or maps filled by memberships and never by the row itself.
	Shared []string
	// Whole lists those of Shared in which a row of ours holds nothing but what units want. In the others, such as the ports of a
	// switch, other people's rows are left alone.
	Whole []string
	// Monitored lists those of Shared that are small enough to be read through the monitor as well. libovsdb rebuilds a
	// cached set on each change, which costs 10 ms on a switch of 10,000 ports, so the others are known from selects.
	Monitored []string
	// Named tables have a column name that OVN and people know the rows by, and that the server does not keep unique: a foreign row
	// with a name of ours is reported.
	Named bool
	// Foreign tables hold no rows of ours; units only have memberships in them.
	Foreign bool
	// ByName says whose the rows are of a table that has names and no external_ids; nil: nobody's once their unit is forgotten.
	ByName *Naming
}

// Naming leads from the name of a row to its unit, and back. A row is ours only if its UUID is the one that we make of its name.
type Naming struct {
	Owner func(name string) unit.Key
	Names func(owner unit.Key) []string
}

// TunnelKey is a request for a dataplane key.
type TunnelKey struct {
	// Scope is what the key must be unique in: a description like "datapaths" or "ports of Logical_Switch <uuid>".
	Scope string
	Key   int
	// Max is the largest valid key; the smallest is 1.
	Max int
}

// NewSchema completes a generated model with a client index on the owner of each row, for tables that have external_ids. err
// is that of the generated constructor, which cannot fail for generated code.
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
	return Schema{Model: m, Tables: tables}
}

// ownerOf returns the unit that a row belongs to; empty for foreign rows.
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

// ownedColumns lists the columns that a row of the table owns whole or by key, sorted.
func (s *Schema) ownedColumns(table string) []string {
	t := s.Tables[table]
	var columns []string
	for column := range columnsOf(s.Model.Types()[table]) {
		if column == "_uuid" || slices.Contains(t.Ignored, column) || slices.Contains(t.Omitted, column) || slices.Contains(t.Shared, column) {
			continue
		}
		columns = append(columns, column)
	}
	slices.Sort(columns)
	return columns
}

// monitoredColumns lists the columns that the monitor asks for, sorted. Only columns of the model are named, so that a newer
// server's columns never reach the client.
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
