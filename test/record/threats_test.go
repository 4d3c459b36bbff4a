package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// threats reads the rows of docs/user/threat-model.md below each heading: the attempt, and the cell that names tests.
func threats(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "user", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections, heading := map[string]map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			heading = strings.TrimSpace(name)
			sections[heading] = map[string]string{}
		}
		if cells := strings.Split(line, "|"); len(cells) == 5 && heading != "" && !strings.HasPrefix(line, "|---") {
			sections[heading][strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[3])
		}
	}
	return sections
}

// TestEveryThreatNamesATestOrAReason reads docs/user/threat-model.md: a prevented attempt must name existing tests, and
// any other must give a reason.
func TestEveryThreatNamesATestOrAReason(t *testing.T) {
	exists, sections := tests(t), threats(t)
	for _, heading := range []string{"User of a namespace", "Pod with NET_ADMIN and NET_RAW",
		"Stranger on the segment", "Compromised agent", "Compromised node", notStopped} {
		if len(sections[heading]) < 2 { // at least the table's head and a row
			t.Errorf("section %q has no table", heading)
		}
	}
	for heading, rows := range sections {
		delete(rows, "attempt")
		for attempt, cell := range rows {
			names := named.FindAllStringSubmatch(cell, -1)
			if cell == "" || heading != notStopped && len(names) == 0 {
				t.Errorf("%s: %q names no test and no reason: %q", heading, attempt, cell)
			}
			for _, name := range names {
				if !exists[name[1]] {
					t.Errorf("%s: %q names %s, which does not exist", heading, attempt, name[1])
				}
			}
		}
	}
}

// notStopped is the heading of the threats that have a reason instead of a test.
const notStopped = "What is not stopped"

// TestReservedDestinationsNameTests reads docs/user/reserved.md: each kind of state must name existing tests.
func TestReservedDestinationsNameTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "user", "reserved.md"))
	if err != nil {
		t.Fatal(err)
	}
	exists, names := tests(t), named.FindAllStringSubmatch(string(text), -1)
	if len(names) == 0 {
		t.Error("docs/user/reserved.md names no test")
	}
	for _, name := range names {
		if !exists[name[1]] {
			t.Errorf("docs/user/reserved.md names %s, which does not exist", name[1])
		}
	}
}
