// Package cgroup creates and removes control groups on hosts with version 1, version 2 or both.
package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Hierarchy is one mounted tree of control groups.
type Hierarchy struct {
	Mount       string
	V2          bool
	Controllers []string // version 1: from the mount options
}

// Hierarchies lists the mounted hierarchies.
func Hierarchies() ([]Hierarchy, error) {
	mounts, err := os.Open("/proc/mounts")
	if err != nil {
		return nil, err
	}
	defer mounts.Close()
	return parseMounts(mounts)
}

func parseMounts(mounts io.Reader) (found []Hierarchy, err error) {
	scan := bufio.NewScanner(mounts)
	for scan.Scan() {
		f := strings.Fields(scan.Text())
		if len(f) < 4 || !strings.HasPrefix(f[1], "/sys/fs/cgroup") {
			continue
		}
		switch f[2] {
		case "cgroup":
			found = append(found, Hierarchy{Mount: f[1], Controllers: strings.Split(f[3], ",")})
		case "cgroup2":
			found = append(found, Hierarchy{Mount: f[1], V2: true})
		}
	}
	return found, scan.Err()
}

// Unified reports whether pods run on version 2, which is the case if no other hierarchy exists.
func Unified(all []Hierarchy) bool { return len(all) == 1 && all[0].V2 }

// Dirs returns the folders of one group, a path such as /weft-lab/n1, in all hierarchies.
func Dirs(all []Hierarchy, group string) []string {
	var dirs []string
	for _, h := range all {
		dirs = append(dirs, filepath.Join(h.Mount, group))
	}
	return dirs
}

// Make creates a group in every hierarchy, with the settings that kubelet expects of its root.
func Make(all []Hierarchy, group string) error {
	for _, h := range all {
		if h.V2 && !Unified(all) {
			continue // hybrid hosts bind the controllers to version 1
		}
		if err := h.make(group); err != nil {
			return fmt.Errorf("cgroup %s%s: %w", h.Mount, group, err)
		}
	}
	return nil
}

// make works from the top down, because each level passes its resources to the next.
func (h Hierarchy) make(group string) error {
	dir := h.Mount
	for _, elem := range strings.Split(strings.Trim(group, "/"), "/") {
		parent := dir
		dir = filepath.Join(dir, elem)
		if h.V2 {
			if err := enableControllers(parent); err != nil {
				return err
			}
		}
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if slices.Contains(h.Controllers, "cpuset") {
			if err := copyFiles(parent, dir, "cpuset.cpus", "cpuset.mems"); err != nil {
				return err
			}
		}
	}
	return nil
}

// enableControllers passes a version 2 group's controllers to its children, one at a time, because the kernel may
// refuse some.
func enableControllers(dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(have)) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0)
	}
	return nil
}

// copyFiles is for cpuset of version 1. Its children start empty and refuse processes until the files are filled.
func copyFiles(from, to string, names ...string) error {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), text, 0); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes a group's folder and everything below. The kernel may keep a group busy for a moment after its last
// process ended. Version 1 has no event for that, so Remove retries until the deadline.
func Remove(dir string, timeout time.Duration) error {
	const poll = 20 * time.Millisecond
	for deadline := time.Now().Add(timeout); ; time.Sleep(poll) {
		err := removeTree(dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
