// Package state records what a lab creates outside its own folder, so that it can be removed even after the creating
// process was killed. Each entry is written before its object is created.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/google/renameio/v2"
)

// State is the record of one lab.
type State struct {
	Nodes     int
	Bare      bool     // the lab itself runs no OVN and Open vSwitch
	Netns     []string // names under /run/netns
	Cgroups   []string // absolute folders
	Processes []Process

	path string
}

// Process identifies an init process. A pid alone may have been reused by another program.
type Process struct {
	Machine   string
	PID       int
	StartTime uint64 // clock ticks after boot: field 22 of /proc/PID/stat
}

// Load reads a record; a lab that was never up has an empty record.
func Load(path string) (*State, error) {
	s := &State{path: path}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("state %s: %w", path, err)
	}
	return s, nil
}

// Empty reports whether the record has no entries.
func (s *State) Empty() bool {
	return len(s.Netns)+len(s.Cgroups)+len(s.Processes) == 0
}

// AddNetns records a network namespace before its creation.
func (s *State) AddNetns(name string) error {
	s.Netns = append(s.Netns, name)
	return s.save()
}

// AddCgroups records control groups before their creation.
func (s *State) AddCgroups(dirs []string) error {
	s.Cgroups = append(s.Cgroups, dirs...)
	return s.save()
}

// AddProcess records an init process, which waits for a byte until it is recorded.
func (s *State) AddProcess(p Process) error {
	s.Processes = append(s.Processes, p)
	return s.save()
}

// SetNodes records the lab's number of nodes.
func (s *State) SetNodes(n int) error {
	s.Nodes = n
	return s.save()
}

// SetBare records whether the product brings OVN and Open vSwitch.
func (s *State) SetBare(bare bool) error {
	s.Bare = bare
	return s.save()
}

// Process returns the newest init process of a machine.
func (s *State) Process(machine string) (Process, bool) {
	for _, p := range slices.Backward(s.Processes) {
		if p.Machine == machine {
			return p, true
		}
	}
	return Process{}, false
}

func (s *State) save() error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(s.path, append(text, '\n'), 0o644)
}
