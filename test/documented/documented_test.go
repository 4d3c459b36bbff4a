package documented

import (
	"slices"
	"testing"
)

// Lines are found in sentences and in code blocks, without prompts, pipes and comments.
func TestLinesOf(t *testing.T) {
	const page = "Run `kubectl weft status`, or `kubectl -n x get pods`.\n" +
		"```\n$ kubectl weft capture POD -w - | wireshark -i -\nkubectl weft log # all\n" +
		"client ──▶ kubectl weft trace ──▶ pod\n```\n"
	want := []Line{{"a.md:1", "status", false}, {"a.md:3", "capture POD -w -", true}, {"a.md:4", "log", true}}
	if got := linesOf("a.md", page); !slices.Equal(got, want) {
		t.Errorf("lines %+v, want %+v", got, want)
	}
}

// Placeholders become values. One without a value is an error, so that a test does not pass it to a command.
func TestFill(t *testing.T) {
	values := map[string]string{"POD": "demo/web-0", "[A|B]": "", "COMMAND-SUBSTITUTION": "7"}
	got, err := Line{Text: `why POD [A | B]... --confirm "$(kubectl get x)"`}.Fill(values)
	if want := []string{"why", "demo/web-0", "--confirm", "7"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("arguments %q, %v", got, err)
	}
	for _, text := range []string{"why NODE", "why NAMESPACE/POD", "log [TEXT]"} {
		if got, err := (Line{Text: text}).Fill(values); err == nil {
			t.Errorf("%s becomes %q", text, got)
		}
	}
}
