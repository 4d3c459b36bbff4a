package initd

import (
	"encoding/json"
	"fmt"
	"os"
)

// Spec is all that a machine is made of.
type Spec struct {
	Hostname string
	Scratch  string // an empty folder of the machine: mounts are moved through it
	Binds    []Bind
	Sysctls  map[string]string // file under /proc/sys -> value that the machine sees and may write, in the host's stead
	Files    []File
	Steps    []Step
	Env      []string // of every step, and of what is run by hand in the machine
	LogDir   string   // a file per daemon
	Control  string   // the socket of Client
}

// Bind shows a folder of the lab in the machine's own tree, as containerd's root, which must not be on an overlay.
type Bind struct{ Source, Target string }

// File is written in the machine's own tree.
type File struct {
	Path    string
	Content string
}

// Step is one daemon or one command. A step starts when the one before it is ready.
type Step struct {
	Name   string // the daemon's name for Client, and its log file's
	Argv   []string
	Daemon bool
	Ready  string // of a daemon: "unix:PATH" or "tcp:ADDRESS" that accepts, or an https URL that says 200
	Unless string // of a command: skipped when this file is there
}

// ReadSpec reads what WriteSpec wrote.
func ReadSpec(path string) (Spec, error) {
	var spec Spec
	text, err := os.ReadFile(path)
	if err != nil {
		return spec, err
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return spec, fmt.Errorf("spec %s: %w", path, err)
	}
	return spec, nil
}

// WriteSpec stores a spec for the init process that is about to start.
func WriteSpec(path string, spec Spec) error {
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
