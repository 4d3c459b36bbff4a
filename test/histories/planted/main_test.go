package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A bug that cannot be planted shows nothing: who changes what it spoils makes it anew.
func TestBugsCanBePlanted(t *testing.T) {
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Skip("not in a clone: ", err)
	}
	bugs, err := filepath.Glob("*.patch")
	if err != nil || len(bugs) == 0 {
		t.Fatal("no bugs: ", err)
	}
	for _, bug := range bugs {
		path, err := filepath.Abs(bug)
		if err != nil {
			t.Fatal(err)
		}
		check := exec.Command("git", "apply", "--check", path)
		check.Dir = strings.TrimSpace(string(top)) // else paths outside the folder are left out in silence
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", bug, err, out)
		}
	}
}
