// Package wire connects to databases, and reads and writes rows in OVSDB's wire format (RFC 7047). It serves programs that read
// databases of any version, for which no model has every column: copies of databases, and traces. The engine uses models instead
// (pkg/ovndb).
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Row is a row of a table: column -> value in wire format.
type Row map[string]any

// Decode decodes JSON and keeps integers exact.
func Decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// UUIDOf returns a reference in wire format.
func UUIDOf(uuid string) any { return []any{"uuid", uuid} }

// UUID returns the UUID of the row.
func (r Row) UUID() string { return r.Reference("_uuid") }

// Reference returns the UUID in a column with at most one UUID, or "".
func (r Row) Reference(column string) string {
	for _, uuid := range r.References(column) {
		return uuid
	}
	return ""
}

// References returns the UUIDs in a column with a set of UUIDs.
func (r Row) References(column string) []string {
	var found []string
	for _, v := range r.elements(column) {
		if uuid, ok := asUUID(v); ok {
			found = append(found, uuid)
		}
	}
	return found
}

func asUUID(value any) (string, bool) {
	pair, _ := value.([]any)
	if len(pair) != 2 || pair[0] != "uuid" {
		return "", false
	}
	uuid, ok := pair[1].(string)
	return uuid, ok
}

// elements returns a column as a set. A single value is a set with one element.
func (r Row) elements(column string) []any {
	switch value := r[column].(type) {
	case nil:
		return nil
	case []any:
		if len(value) == 2 && value[0] == "set" {
			set, _ := value[1].([]any)
			return set
		}
		return []any{value}
	default:
		return []any{value}
	}
}

// Text returns the string in a column with at most one string, or "".
func (r Row) Text(column string) string {
	for _, text := range r.Texts(column) {
		return text
	}
	return ""
}

// Texts returns the strings in a column with a set of strings.
func (r Row) Texts(column string) []string {
	var found []string
	for _, v := range r.elements(column) {
		if s, ok := v.(string); ok {
			found = append(found, s)
		}
	}
	return found
}

// True reports whether a column with at most one boolean is true.
func (r Row) True(column string) bool {
	for _, v := range r.elements(column) {
		return v == true
	}
	return false
}

// Number returns the integer in a column, or 0.
func (r Row) Number(column string) int64 {
	for _, v := range r.elements(column) {
		if n, ok := v.(json.Number); ok {
			i, _ := n.Int64()
			return i
		}
	}
	return 0
}

// Pairs returns a column with a map of strings.
func (r Row) Pairs(column string) map[string]string {
	found := map[string]string{}
	value, _ := r[column].([]any)
	if len(value) != 2 || value[0] != "map" {
		return found
	}
	list, _ := value[1].([]any)
	for _, pair := range list {
		if kv, ok := pair.([]any); ok && len(kv) == 2 {
			found[fmt.Sprint(kv[0])] = fmt.Sprint(kv[1])
		}
	}
	return found
}

// Content returns the row without the columns that only the server sets.
func (r Row) Content() Row {
	content := Row{}
	for column, value := range r {
		if column != "_uuid" && column != "_version" {
			content[column] = value
		}
	}
	return content
}

// Pick returns the requested columns that exist in the row.
func (r Row) Pick(columns ...string) Row {
	picked := Row{}
	for _, column := range columns {
		if value, ok := r[column]; ok {
			picked[column] = value
		}
	}
	return picked
}
