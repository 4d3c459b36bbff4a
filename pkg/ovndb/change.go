package ovndb

import "github.com/weft-network/weft/pkg/unit"

// Op is what a Change does to the database.
type Op string

// The operations. Insert, Update and Delete concern a row; Add and Remove one element of a column that several units share.
const (
	OpInsert Op = "insert"
	OpUpdate Op = "update"
	OpDelete Op = "delete"
	OpAdd    Op = "add"
	OpRemove Op = "remove"
)

// Change is one place where the database is not as a unit wants it, and what would put it right.
type Change struct {
	// Owner is the unit that wants the change.
	Owner unit.Key `json:"owner"`
	Op    Op       `json:"op"`
	Table string   `json:"table"`
	UUID  string   `json:"uuid"`
	// Name is the row's name where the table has one.
	Name string `json:"name,omitempty"`
	// Columns are those concerned, sorted by name: all that an inserted row sets, those of an update that differ, the one that an
	// element is added to or removed from; none for a deleted row.
	Columns []ColumnChange `json:"columns,omitempty"`
}

// ColumnChange is one column, its values as text in OVSDB's notation. Have is empty where there is nothing.
type ColumnChange struct {
	Column string `json:"column"`
	Want   string `json:"want,omitempty"`
	Have   string `json:"have,omitempty"`
}
