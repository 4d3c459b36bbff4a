// Repeat runs tests by gotestsum, which repeats a test that failed. It takes the arguments of gotestsum.
//
// A package can fail outside of its tests: in TestMain, or because a goroutine is left behind. gotestsum repeats such a
// package without any test and counts it as passed. Repeat fails then.
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
		"--jsonfile-timing-events=" + results}, args...)...)
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
		err = fmt.Errorf("failed outside of its tests: %s", strings.Join(packages, ", "))
	}
	return err
}

// result is the end of a test, or of a package if Test is empty (go doc test2json).
type result struct{ Action, Package, Test string }

// failedOutside lists the packages that failed in a run without a failed test.
func failedOutside(results io.Reader) (packages []string, err error) {
	failed := map[string]bool{} // package -> one of its tests has failed in this run
	for decoder := json.NewDecoder(results); ; {
		var r result
		switch err := decoder.Decode(&r); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return packages, err
		case r.Test != "":
			failed[r.Package] = failed[r.Package] || r.Action == "fail"
		default:
			if r.Action == "fail" && !failed[r.Package] {
				packages = append(packages, r.Package)
			}
			failed[r.Package] = false
		}
	}
}
