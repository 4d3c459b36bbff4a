package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBugsCanBePlanted checks that each patch still applies. A change that breaks a patch must update it.
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
		check.Dir = strings.TrimSpace(string(top)) // otherwise paths outside the folder are silently ignored
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", bug, err, out)
		}
	}
}
