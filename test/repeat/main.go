// Repeat runs tests by gotestsum, which repeats a test that failed. It takes the arguments of gotestsum.
//
// A package can fail outside of its tests: in TestMain, or because a goroutine is left behind. gotestsum repeats such a
// package without any test and counts it as passed. Repeat fails then, and prints what the package said outside of its
// tests.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "repeat:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	dir, err := os.MkdirTemp("", "weft-repeat-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	results := filepath.Join(dir, "results")
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt) // gotestsum gets it, too, and ends when its tests have cleaned up
	gotestsum := exec.Command("go", append([]string{"tool", "-modfile=test/tools/sum/go.mod", "gotestsum",
		"--jsonfile=" + results}, args...)...)
	gotestsum.Stdin, gotestsum.Stdout, gotestsum.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := gotestsum.Run(); err != nil {
		return err
	}
	file, err := os.Open(results)
	if err != nil {
		return err
	}
	defer file.Close()
	packages, err := failedOutside(file)
	if err == nil && len(packages) > 0 {
		err = fmt.Errorf("failed outside of its tests: %s", strings.Join(packages, "\n"))
	}
	return err
}

// result is a line of output or the end of a test, or of a package if Test is empty (go doc test2json).
type result struct{ Action, Package, Test, Output string }

// packageRun is one run of a package.
type packageRun struct {
	failed bool     // one of its tests has failed
	said   []string // its last lines outside of its tests
}

// maxLines is how much of a package's output is repeated: the stacks of a few goroutines.
const maxLines = 100

// failedOutside returns the packages that failed in a run without a failed test, each with what it said outside of its
// tests in that run.
func failedOutside(results io.Reader) (packages []string, err error) {
	runs := map[string]packageRun{}
	for decoder := json.NewDecoder(results); ; {
		var r result
		switch err := decoder.Decode(&r); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return packages, err
		}
		current := runs[r.Package]
		switch {
		case r.Test != "":
			current.failed = current.failed || r.Action == "fail"
		case r.Action == "output":
			current.said = append(current.said, r.Output)
			current.said = current.said[max(0, len(current.said)-maxLines):]
		case r.Action == "fail" && !current.failed:
			packages = append(packages, r.Package+"\n"+strings.Join(current.said, ""))
			current = packageRun{}
		case r.Action == "fail" || r.Action == "pass":
			current = packageRun{}
		}
		runs[r.Package] = current
	}
}
