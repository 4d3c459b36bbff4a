package programs

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRead(t *testing.T) {
	if s, err := Read(filepath.Join(t.TempDir(), "absent")); err != nil || s != nil {
		t.Errorf("without a file: %v, %v", s, err)
	}
	file := filepath.Join(t.TempDir(), "programs.json")
	for text, want := range map[string]Program{
		`{"northd":{"version":"25.03.0","build":"ab"}}`: {"25.03.0", "ab"},
		`{}`:      {},
		`nothing`: {},
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := Read(file); s[Northd] != want || (err != nil) != (text == "nothing") {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
}

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		a, b      string
		newer, ok bool
	}{
		{"25.03.0", "24.09.2", true, true},
		{"24.09.2", "25.03.0", false, true},
		{"25.03.10", "25.03.9", true, true},
		{"25.03", "25.03.0", false, true},
		{"25.03.1", "25.03", true, true},
		{"25.03.0", "", false, false},
		{"main", "25.03.0", false, false},
	} {
		if newer, ok := Newer(c.a, c.b); newer != c.newer || ok != c.ok {
			t.Errorf("%q after %q: %t, %t", c.a, c.b, newer, ok)
		}
	}
}
