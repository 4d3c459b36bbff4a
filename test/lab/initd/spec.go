package initd

import (
	"encoding/json"
	"fmt"
	"os"
)

// Spec is the full description of a machine.
type Spec struct {
	Hostname string
	Scratch  string // an empty folder of the machine, through which mounts are moved
	Binds    []Bind
	Sysctls  map[string]string // file under /proc/sys -> value that the machine sees and may write instead of the host's
	Files    []File
	Steps    []Step
	Env      []string // of every step and of every command run in the machine
	LogDir   string   // a file per daemon
	Control  string   // the socket of Client
}

// Bind shows a folder of the lab in the machine's own tree, for example containerd's root, which must not be on an
// overlay.
type Bind struct{ Source, Target string }

// File is a file written in the machine's own tree.
type File struct {
	Path    string
	Content string
}

// Step is one daemon or one command. A step starts when the previous step is ready.
type Step struct {
	Name   string // the daemon's name for Client, and its log file's
	Argv   []string
	Daemon bool
	Ready  string // of a daemon: "unix:PATH" or "tcp:ADDRESS" that accepts, or an https URL that returns 200
	Unless string // of a command: skip the step if this file exists
}

// ReadSpec reads a spec that WriteSpec has written.
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

// WriteSpec stores a spec for an init process that starts next.
func WriteSpec(path string, spec Spec) error {
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
