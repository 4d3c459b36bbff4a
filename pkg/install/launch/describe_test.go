package launch

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDescribe changes the executable, the schema and the arguments: each change gives another build, and no change
// gives the same build.
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
		d, err := p.Describe(t.Context(), root, "")
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
		t.Errorf("two builds of the same program: %s and %s", first, again)
	}
	if other := describe(program("--x")); other == first {
		t.Error("the build is the same with other arguments")
	}
	write(filepath.Join(root, "schema"), "two")
	second := describe(program())
	if second == first {
		t.Error("the build is the same with another schema")
	}
	write(filepath.Join(bin, "server-of-a-test"), "#!/bin/sh\necho 'server (Of a Test) 3.5.0'\n")
	if describe(program()) == second {
		t.Error("the build is the same with another executable")
	}
	if err := os.MkdirAll(filepath.Join(root, "usr/sbin"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(root, "usr/sbin/server-of-a-test"), "a program for another architecture")
	other, err := program().Describe(t.Context(), root, "3.4.0")
	if err != nil || other.Version != "3.4.0" || other.Build == second {
		t.Errorf("another image's program is %+v: %v", other, err)
	}
	if err := os.Remove(filepath.Join(root, "schema")); err != nil {
		t.Fatal(err)
	}
	if _, err := program().Describe(t.Context(), root, ""); err == nil {
		t.Error("no error without the schema")
	}
}
