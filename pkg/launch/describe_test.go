package launch

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDescribe: another executable, schema or argument is another build, and the same are the same.
func TestDescribe(t *testing.T) {
	bin, root := t.TempDir(), t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	describe := func(p Program) string {
		t.Helper()
		d, err := p.Describe(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		if d.Version != "3.5.0" {
			t.Errorf("version %q", d.Version)
		}
		return d.Build
	}
	program := func(more ...string) Program {
		return Program{Argv: append([]string{"server-of-a-test"}, more...), Database: &Database{Schema: "/schema"}}
	}
	write(filepath.Join(bin, "server-of-a-test"), "#!/bin/sh\necho 'server (Of a Test) 3.5.0'\necho 'and more 1.0'\n")
	write(filepath.Join(root, "schema"), "one")
	first := describe(program())
	if again := describe(program()); again != first {
		t.Errorf("the same gave %s and %s", first, again)
	}
	if other := describe(program("--x")); other == first {
		t.Error("another argument is the same build")
	}
	write(filepath.Join(root, "schema"), "two")
	second := describe(program())
	if second == first {
		t.Error("another schema is the same build")
	}
	write(filepath.Join(bin, "server-of-a-test"), "#!/bin/sh\necho 'server (Of a Test) 3.5.0'\n")
	if describe(program()) == second {
		t.Error("another executable is the same build")
	}
	if err := os.Remove(filepath.Join(root, "schema")); err != nil {
		t.Fatal(err)
	}
	if _, err := program().Describe(t.Context(), root); err == nil {
		t.Error("no error without the schema")
	}
}
