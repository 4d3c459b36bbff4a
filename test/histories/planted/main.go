// Command planted shows that the histories find bugs. It applies each patch of this folder separately to a copy of
// the committed tree and runs histories there until one fails.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// failed matches the histories' message for the first failure.
var failed = regexp.MustCompile(`history (\d+) fails, and is being shrunk: (.*)`)

func main() {
	folder := flag.String("patches", "test/histories/planted", "folder with the bugs")
	only := flag.String("bug", "", "plant only this bug")
	limit := flag.Int("n", 1000, "largest number of histories for each bug")
	seed := flag.Int("seed", 1, "seed of the first history")
	flag.Parse()
	patches, err := filepath.Glob(filepath.Join(*folder, *only+"*.patch"))
	if err == nil && len(patches) == 0 {
		err = fmt.Errorf("no bugs in %s", *folder)
	}
	for _, patch := range patches {
		err = errors.Join(err, find(patch, *seed, *limit))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
		os.Exit(1)
	}
}

// find plants one bug, and prints how many histories it took to find it.
func find(patch string, seed, limit int) error {
	name := strings.TrimSuffix(filepath.Base(patch), ".patch")
	tree, err := os.MkdirTemp("", "weft-planted-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if patch, err = filepath.Abs(patch); err != nil {
		return err
	}
	if err := plant(tree, patch); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	started := time.Now()
	cmd := exec.Command("go", "test", "./test/histories", "-count=1", "-timeout", "30m", "-v", "-run", "^TestHistories$",
		"-args", "-n", strconv.Itoa(limit), "-seed", strconv.Itoa(seed), "-shrink", "0", "-rare", "0", "-keep",
		filepath.Join(tree, "failed"))
	cmd.Dir = tree
	out, err := cmd.CombinedOutput()
	found := failed.FindSubmatch(out)
	switch {
	case found == nil && err != nil:
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	case found == nil:
		return fmt.Errorf("%d histories did not find %s", limit, name)
	}
	number, err := strconv.Atoi(string(found[1]))
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %d | %s | %.160s |\n", name, number-seed+1, time.Since(started).Round(time.Second), found[2])
	return nil
}

// plant copies the committed tree and applies the patch.
func plant(tree, patch string) error {
	var archive bytes.Buffer
	list := exec.Command("git", "archive", "HEAD")
	list.Stdout, list.Stderr = &archive, os.Stderr
	if err := list.Run(); err != nil {
		return fmt.Errorf("git archive: %w", err)
	}
	extract := exec.Command("tar", "-x", "-C", tree)
	extract.Stdin, extract.Stderr = &archive, os.Stderr
	if err := extract.Run(); err != nil {
		return fmt.Errorf("tar: %w", err)
	}
	apply := exec.Command("patch", "-s", "-p1", "-d", tree, "-i", patch)
	if out, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("patch: %w\n%s", err, out)
	}
	return nil
}
