package cli

import (
	"context"
	"strings"
	"testing"
)

// Every command has examples, each a line that begins with the plugin or ends with it behind a pipe, and whose command
// and flags exist.
func TestEveryCommandHasAnExample(t *testing.T) {
	for _, c := range commands(newRoot(context.Background(), nil)) {
		if c.Example == "" {
			t.Errorf("%q has no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			_, words, ok := strings.Cut(line, "kubectl weft ")
			if !ok || !strings.HasPrefix(line, "  ") {
				t.Errorf("%q: example %q is no indented line with kubectl weft", c.CommandPath(), line)
				continue
			}
			checkExample(t, strings.Fields(words))
		}
	}
}

// checkExample requires that the words up to a pipe or a redirection name a command and its flags.
func checkExample(t *testing.T, words []string) {
	t.Helper()
	for i, word := range words {
		if word == "|" || word == ">" || strings.Contains(word, "$(") {
			words = words[:i]
			break
		}
	}
	found, rest, err := newRoot(context.Background(), nil).Find(words)
	if err != nil || !found.HasParent() {
		t.Errorf("example %q names no command: %v", words, err)
		return
	}
	for _, word := range rest {
		name, _, _ := strings.Cut(word, "=")
		long, isLong := strings.CutPrefix(name, "--")
		short, isShort := strings.CutPrefix(name, "-")
		switch {
		case isLong && found.Flags().Lookup(long) == nil && found.InheritedFlags().Lookup(long) == nil,
			!isLong && isShort && len(short) == 1 && found.Flags().ShorthandLookup(short) == nil &&
				found.InheritedFlags().ShorthandLookup(short) == nil:
			t.Errorf("example %q: %s has no flag %s", words, found.CommandPath(), word)
		}
	}
}

// Shells complete the values of flags without a cluster.
func TestFlagValuesAreCompleted(t *testing.T) {
	server := unreachable()
	for args, want := range map[string]string{
		"trace --protocol s": "sctp", "trace -o s": "svg", "trace --family I": "IPv4", "topology -o m": "mermaid",
		"status -o j": "json", "ip import --location U": "Underlay", "ip import -o y": "yaml", "log -o t": "text",
		"db rebuild -o j": "json",
	} {
		_, out, _ := runAgainst(server, append([]string{"__complete"}, strings.Fields(args)...)...)
		if !strings.Contains("\n"+out, "\n"+want+"\n") || !strings.Contains(out, ":4") {
			t.Errorf("%s: completed to %q, want %s without files", args, out, want)
		}
	}
}

// A cluster that does not answer ends a completion with its reason, without names.
func TestCompletionSaysWhyThereAreNoNames(t *testing.T) {
	server := unreachable()
	for _, args := range []string{"why", "trace", "topology", "log", "trace --node", "plan --node"} {
		_, out, _ := runAgainst(server, append(append([]string{"__complete"}, strings.Fields(args)...), "")...)
		if !strings.Contains(out, "_activeHelp_ ") || !strings.Contains(out, strings.TrimPrefix(server, "http://")) {
			t.Errorf("%s: completed to %q, want the error", args, out)
		}
	}
}
