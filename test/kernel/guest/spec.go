package guest

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Argument is the first argument of the program that is PID 1. The second one is the exchange folder.
const Argument = "guest"

// Spec is what runs inside the kernel.
type Spec struct {
	Program []string // a path or a name in PATH, and its arguments
	Dir     string   // the working folder
	Env     []string // the environment
	Out     []string // folders of the machine that the program can change

	Exchange string `json:"-"` // the folder of the machine with the spec and the result
}

// Result is how the program ended.
type Result struct {
	Code  int    // the exit code; 128+N for the signal N
	Error string // why the program did not start, or empty
}

func specFile(exchange string) string   { return filepath.Join(exchange, "spec.json") }
func resultFile(exchange string) string { return filepath.Join(exchange, "result.json") }

// scratch is an empty folder of the machine, on which PID 1 mounts the memory for changed files.
func scratch(exchange string) string { return filepath.Join(exchange, "scratch") }

// Write writes the spec into the exchange folder.
func (s Spec) Write() error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return errors.Join(os.Mkdir(scratch(s.Exchange), 0o755), os.WriteFile(specFile(s.Exchange), text, 0o644))
}

func readSpec(exchange string) (s Spec, err error) {
	text, err := os.ReadFile(specFile(exchange))
	if err != nil {
		return s, err
	}
	s.Exchange = exchange
	return s, json.Unmarshal(text, &s)
}

// ReadResult reads the result from the exchange folder. Without a result the kernel ended before its program.
func ReadResult(exchange string) (r Result, err error) {
	text, err := os.ReadFile(resultFile(exchange))
	if errors.Is(err, fs.ErrNotExist) {
		return r, errors.New("no result")
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

// write writes the result so that it reaches the machine's disk, because hostfs writes late.
func (r Result) write(exchange string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.Create(resultFile(exchange))
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}
