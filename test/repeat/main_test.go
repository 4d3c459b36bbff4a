package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// head begins each test file. once reports whether it is called for the first time.
const head = `package x

import (
	"os"
	"testing"
)

func once() bool { return os.Mkdir(os.Getenv("ONCE"), 0o700) == nil }

`

// TestRun runs the program on modules whose only package fails in one way each.
func TestRun(t *testing.T) {
	program := filepath.Join(t.TempDir(), "repeat")
	if text, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		test  string
		fails string // in the output; empty if the run passes
	}{
		"all pass":          {test: `func TestA(*testing.T) {}`},
		"a test fails once": {test: `func TestA(t *testing.T) { if once() { t.Fatal() } }`},
		"a test fails":      {test: `func TestA(t *testing.T) { t.Fatal() }`, fails: "exit status 1"},
		"TestMain fails": {test: `func TestMain(*testing.M) { os.Exit(1) }; func TestA(*testing.T) {}`,
			fails: "exit status 1"},
		"TestMain fails once": {test: `func TestMain(m *testing.M) { if once() { os.Exit(1) }; m.Run() }; func TestA(*testing.T) {}`,
			fails: "failed outside of its tests: example.org/x"},
		"TestMain fails once afterwards": {
			test:  `func TestMain(m *testing.M) { m.Run(); if once() { println("a leak"); os.Exit(1) } }; func TestA(*testing.T) {}`,
			fails: "failed outside of its tests: example.org/x\nPASS\na leak\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "go.mod"), "module example.org/x\n")
			write(t, filepath.Join(dir, "x_test.go"), head+c.test)
			if err := os.MkdirAll(filepath.Join(dir, "test/tools"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(root, "test/tools/sum"), filepath.Join(dir, "test/tools/sum")); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program, "--rerun-fails=1", "--packages", "./...")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "ONCE="+filepath.Join(t.TempDir(), "once"))
			text, err := cmd.CombinedOutput()
			if failed := err != nil; failed != (c.fails != "") || !strings.Contains(string(text), c.fails) {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}
