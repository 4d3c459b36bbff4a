package ovndbtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// EditSchema applies edit to a copy of a full schema, writes it to a file and returns the path. A schema is a JSON
// object with "version" and "tables" (RFC 7047 §3.2).
func EditSchema(t testing.TB, schema string, edit func(schema map[string]any)) string {
	t.Helper()
	text, err := os.ReadFile(SchemaFile(t, schema))
	if err != nil {
		t.Fatal(err)
	}
	var parsed map[string]any
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	delete(parsed, "cksum")
	edit(parsed)
	if text, err = json.Marshal(parsed); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), schema+".ovsschema")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Columns returns the columns of a table of a schema that is being edited.
func Columns(schema map[string]any, table string) map[string]any {
	tables, _ := schema["tables"].(map[string]any)
	found, _ := tables[table].(map[string]any)
	columns, _ := found["columns"].(map[string]any)
	return columns
}

// Convert changes the running server's schema to that of a file, as an upgrade of OVN does.
func (s *Server) Convert(schemaFile string) {
	s.t.Helper()
	Command(s.t, "ovsdb-client", "-vconsole:off", "-t20", "convert", s.Endpoint(), schemaFile)
}

// Copy returns the content of the database's file.
func (s *Server) Copy() []byte {
	s.t.Helper()
	text, err := os.ReadFile(s.file())
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// Replace overwrites the database's file, possibly with a damaged one. The server must not run.
func (s *Server) Replace(file []byte) {
	s.t.Helper()
	if err := os.WriteFile(s.file(), file, 0o600); err != nil {
		s.t.Fatal(err)
	}
}
