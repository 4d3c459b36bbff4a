package cli

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/admin"
)

var update = flag.Bool("update", false, "write the texts in testdata")

// Each JSON file in testdata is an operator's answer. The text file next to it is the output for people.
func TestTexts(t *testing.T) {
	answers, err := filepath.Glob("testdata/*.json")
	if err != nil || len(answers) == 0 {
		t.Fatalf("no answers in testdata: %v", err)
	}
	for _, file := range answers {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var answer admin.Changes
			if err := json.Unmarshal(text, &answer); err != nil {
				t.Fatal(err)
			}
			render := planText
			if strings.HasPrefix(filepath.Base(file), "drift") {
				render = driftText
			}
			compare(t, strings.TrimSuffix(file, ".json")+".txt", render(answer))
		})
	}
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// The text does not depend on the order of the operator's list of changes.
func TestTextsAreSorted(t *testing.T) {
	text, err := os.ReadFile("testdata/node.json")
	if err != nil {
		t.Fatal(err)
	}
	var forward, backward admin.Changes
	if err := json.Unmarshal(text, &forward); err != nil {
		t.Fatal(err)
	}
	for _, c := range forward.Changes {
		backward.Changes = append([]ovndb.Change{c}, backward.Changes...)
	}
	backward.Notes = forward.Notes
	if diff := cmp.Diff(planText(forward), planText(backward)); diff != "" {
		t.Errorf("(-forward +backward):\n%s", diff)
	}
}

func TestCheckTexts(t *testing.T) {
	for want, answer := range map[string]admin.Violations{
		"2 invariants hold.\n": {Checked: []string{"A", "B"}},
		"A: two ports have 10.0.0.5\n\n1 violation, 2 invariants checked.\n": {
			Checked: []string{"A", "B"}, Violations: []invariant.Violation{{Invariant: "A", Message: "two ports have 10.0.0.5"}},
		},
		"A: x\nB: y\n\n2 violations, 2 invariants checked.\n": {
			Checked: []string{"A", "B"}, Violations: []invariant.Violation{{Invariant: "A", Message: "x"}, {Invariant: "B", Message: "y"}},
		},
	} {
		if diff := cmp.Diff(want, checkText(answer)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
