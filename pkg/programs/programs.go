// Package programs says which programs of OVN and Open vSwitch an image has. What runs one of them needs to be replaced only when it is another one:
// most versions of Weft have the OVN of the version before.
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

// File is where an image says it: "weft-ovn programs" writes it when the image is built.
const File = "/usr/share/weft/programs.json"

// Launcher becomes a program, which its first argument names.
const Launcher = "/usr/bin/weft-ovn"

// Northd is the name of ovn-northd, whose version is OVN's.
const Northd = "northd"

// Program is one as its container would run it.
type Program struct {
	// Version is what it says of itself, "25.03.0".
	Version string `json:"version"`
	// Build is a digest of all that it is started with: its executable, arguments, configuration and schema.
	Build string `json:"build"`
}

// Set are the programs of an image by the launcher's names, "northd".
type Set map[string]Program

// Read reads a set. An image that does not say has none: then each image counts as another.
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

// Newer tells whether version a is after b, number by number. ok is false where one of them is not made of numbers.
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
