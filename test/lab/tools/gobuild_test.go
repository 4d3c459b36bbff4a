package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// smallModule makes a source tree with one module, test/lab/small, whose program prints its own name.
func smallModule(t *testing.T, text string) (root string) {
	t.Helper()
	root = t.TempDir()
	dir := filepath.Join(root, "test", "lab", "small")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "module small\n\ngo 1.26\n", "main.go": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestAliasesAreOneProgram(t *testing.T) {
	root := smallModule(t, "package main\n\nimport \"os\"\n\nfunc main() { print(os.Args[0]) }\n")
	cache := Cache{Dir: t.TempDir()}
	program := Program{Name: "small", Module: "small", Package: ".", Aliases: []string{"one", "two"}}
	for _, flags := range []string{"-s", "-s -w"} { // the second build replaces the first under all names
		program.LDFlags = flags
		log := &buildLog{name: program.Name}
		if made, err := cache.Build(t.Context(), root, program, log); err != nil || !made {
			t.Fatalf("made %t, %v", made, err)
		}
		if log.total == 0 || log.compiled > log.total {
			t.Errorf("%s", log)
		}
		first, err := os.Stat(cache.Bin("small"))
		if err != nil {
			t.Fatal(err)
		}
		for _, alias := range program.Aliases {
			if at, err := os.Stat(cache.Bin(alias)); err != nil || !os.SameFile(first, at) {
				t.Errorf("%s is not the program's file: %v", alias, err)
			}
			text, err := exec.CommandContext(t.Context(), cache.Bin(alias)).CombinedOutput()
			if err != nil || string(text) != cache.Bin(alias) {
				t.Errorf("%s: %q, %v", alias, text, err)
			}
		}
	}
	if made, err := cache.Build(t.Context(), root, program, &buildLog{}); err != nil || made {
		t.Errorf("an unchanged program was made again: %t, %v", made, err)
	}
}

func TestABuildsErrorHasNoPackages(t *testing.T) {
	root := smallModule(t, "package main\n\nimport _ \"archive/zip\"\n\nfunc main() { missing() }\n")
	cache := Cache{Dir: t.TempDir()}
	_, err := cache.Build(t.Context(), root, Program{Name: "small", Module: "small", Package: "."}, &buildLog{})
	if err == nil || !strings.Contains(err.Error(), "undefined: missing") {
		t.Fatalf("%v", err)
	}
	for line := range strings.Lines(err.Error()) {
		if line == "small\n" || line == "archive/zip\n" {
			t.Errorf("the error lists packages:\n%v", err)
		}
	}
}
