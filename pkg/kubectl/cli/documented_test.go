package cli

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weft-network/weft/test/documented"
)

// placeholders are values for the placeholders of the pages.
var placeholders = map[string]string{
	"POD": "demo/web-0", "NAMESPACE/POD": "demo/web-0", "FROM": "demo/client", "TO": "demo/web-0", "svc/NAMESPACE/NAME": "svc/demo/web",
	"PORT": "80", "FILE": "service.yaml", "OBJECT": "pod/demo/web-0", "[OBJECT]": "pod/demo/web-0", "UID": "0", "ADDRESS": "192.0.2.10",
	"[TEXT]": "web", "[NAMESPACE][/POD]": "demo/web-0", "[NAMESPACE|NAMESPACE/POD]": "demo/web-0", "COMMAND": "trace",
	"NAT": "NAT", "COMMAND-SUBSTITUTION": "0", "FOLDER": "weft",
}

// Each command line of the README and of the pages has a command, flags and arguments that the program accepts. A sentence may
// name a command without its arguments.
func TestDocumentedCommandLinesParse(t *testing.T) {
	lines, err := documented.Read("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) < 100 {
		t.Fatalf("the pages have %d command lines", len(lines))
	}
	for _, line := range lines {
		if err := parseLine(t, line); err != nil {
			t.Errorf("%s: %s: %v", line.At, line.Command(), err)
		}
	}
}

// Each example of a command's help is accepted too.
func TestExamplesOfHelpParse(t *testing.T) {
	found := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, text := range strings.Split(c.Example, "\n") {
			_, after, ok := strings.Cut(text, "kubectl weft")
			if !ok {
				continue
			}
			found++
			if err := parseLine(t, documented.Line{At: c.CommandPath(), Text: strings.TrimSpace(after), Example: true}); err != nil {
				t.Errorf("%s: %s: %v", c.CommandPath(), text, err)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(t.Context(), io.Discard))
	if found < 30 {
		t.Errorf("found %d examples", found)
	}
}

// parseLine finds the command of a line, and parses its flags and arguments.
func parseLine(t *testing.T, line documented.Line) error {
	t.Helper()
	args, err := line.Fill(placeholders)
	if err != nil {
		return err
	}
	command, rest, err := newRoot(t.Context(), io.Discard).Find(args)
	if err != nil {
		return err
	}
	command.InitDefaultHelpFlag()
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	if slices.Contains(rest, "--help") || !line.Example && command.Flags().NArg() == 0 {
		return nil // the help, or a command and its flags in a sentence
	}
	if err := command.ValidateArgs(command.Flags().Args()); err != nil {
		return err
	}
	return command.ValidateRequiredFlags()
}
