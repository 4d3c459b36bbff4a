// Package programs records which programs of OVN and Open vSwitch an image contains. A container is replaced only if
// its program changed: most versions of Weft ship the same OVN as the previous version.
package programs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// File is the list of programs in an image. "weft-ovn programs" writes it during the image build.
const File = "/usr/share/weft/programs.json"

// Launcher is the executable that prepares and becomes the program named by its first argument.
const Launcher = "/usr/bin/weft-ovn"

// Northd is the name of ovn-northd, whose version is OVN's.
const Northd = "northd"

// Program identifies a program as its container would run it.
type Program struct {
	// Version is the version that the program prints, "25.03.0".
	Version string `json:"version"`
	// Build is a digest of everything that the program starts with: its executable, arguments, configuration and
	// schema.
	Build string `json:"build"`
}

// Set maps the launcher's names of programs ("northd") to the programs of an image.
type Set map[string]Program

// Read reads a set from a file. Without the file it returns nil, and the caller treats every image as different.
func Read(path string) (Set, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var s Set
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Newer reports whether version a is newer than b, compared number by number. ok is false if either is not made of
// numbers.
func Newer(a, b string) (newer, ok bool) {
	x, okX := numbers(a)
	y, okY := numbers(b)
	if !okX || !okY {
		return false, false
	}
	for i := range max(len(x), len(y)) {
		if m, n := at(x, i), at(y, i); m != n {
			return m > n, true
		}
	}
	return false, true
}

func numbers(version string) (found []int, ok bool) {
	for _, part := range strings.Split(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		found = append(found, n)
	}
	return found, true
}

func at(list []int, i int) int {
	if i < len(list) {
		return list[i]
	}
	return 0
}
