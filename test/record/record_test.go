// Package record checks docs/evidence/track-record.md and docs/user/threat-model.md.
package record

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	declared = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
	named    = regexp.MustCompile("`(Test[A-Z]\\w*)`")
)

// tests finds the names of all tests of the module.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range declared.FindAllSubmatch(text, -1) {
			found[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// failureModes reads the table of failure modes: the row's number and its line.
func failureModes(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "evidence", "track-record.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			rows[strings.TrimSpace(cells[1])] = cells[3]
		}
	}
	return rows
}

func TestEveryFailureModeNamesATestOrAReason(t *testing.T) {
	exists, rows := tests(t), failureModes(t)
	want := []string{}
	for i := range 12 {
		want = append(want, fmt.Sprintf("L%d", i+1))
	}
	for i := range 5 {
		want = append(want, fmt.Sprintf("D%d", i+1))
	}
	for i := range 14 {
		want = append(want, fmt.Sprintf("C%d", i+1))
	}
	for i := range 12 {
		want = append(want, fmt.Sprintf("I%d", i+1))
	}
	for i := range 7 {
		want = append(want, fmt.Sprintf("S%d", i+1))
	}
	for i := range 6 {
		want = append(want, fmt.Sprintf("O%d", i+1))
	}
	for _, row := range want {
		names := named.FindAllStringSubmatch(rows[row], -1)
		if len(names) == 0 && !strings.HasPrefix(strings.TrimSpace(rows[row]), "Not yet: ") {
			t.Errorf("row %s names no test and no reason: %q", row, rows[row])
		}
		for _, name := range names {
			if !exists[name[1]] {
				t.Errorf("row %s names %s, which does not exist", row, name[1])
			}
		}
	}
}

// A page names a test because the test shows what the page says.
func TestEveryTestThatAPageNamesExists(t *testing.T) {
	exists, pages := tests(t), 0
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		pages++
		text, err := os.ReadFile(path)
		for _, name := range named.FindAllStringSubmatch(string(text), -1) {
			if !exists[name[1]] {
				t.Errorf("%s names %s, which does not exist", path, name[1])
			}
		}
		return err
	})
	if err != nil || pages == 0 {
		t.Fatalf("%d pages: %v", pages, err)
	}
}
