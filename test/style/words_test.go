package style

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// banned are the phrases that comments and pages avoid; the package comment says what to write instead.
var banned = regexp.MustCompile(`(?i)\b(?:` + strings.Join([]string{
	`tells?`, `told`, `telling`, `asks?`, `asked`, `asking`, `hears?`, `heard`, `knows`, `wants? to`, `looks? at`,
	`nobody is`, `is none`, `are none`, `shall`, `anew`, `of before`, `be it`,
	`ones? that`, `ones? who`, `those of`, `those that`,
}, "|") + `)\b`)

// Comments and pages avoid the banned phrases. They are counted by folder: the first two elements of the path.
func TestVocabulary(t *testing.T) {
	var found []offence
	for _, s := range sources(t) {
		if strings.HasPrefix(s.path, "test/style/") {
			continue // it quotes them
		}
		for _, group := range s.ast.Comments {
			start := s.fset.Position(group.Pos()).Line
			found = append(found, offencesIn(s.path, start, strings.Split(group.Text(), "\n"))...)
		}
	}
	for _, path := range files(t, ".md") {
		found = append(found, offencesIn(path, 1, withoutCode(read(t, path)))...)
	}
	ratchet(t, "vocabulary.txt", found)
}

// offencesIn finds banned phrases in text whose first line has a number. A phrase may go over the end of a line.
func offencesIn(path string, start int, lines []string) (found []offence) {
	text := strings.Join(lines, "\n")
	spaced := strings.ReplaceAll(text, "\n", " ")
	for _, at := range banned.FindAllStringIndex(spaced, -1) {
		line := start + strings.Count(text[:at[0]], "\n")
		found = append(found, offence{folder(path), fmt.Sprintf("%s:%d", path, line), spaced[at[0]:at[1]]})
	}
	return found
}

// folder returns the first two elements of the path of a file's folder; "." is the root.
func folder(path string) string {
	elements := strings.Split(path, "/")
	elements = elements[:min(len(elements)-1, 2)]
	if len(elements) == 0 {
		return "."
	}
	return strings.Join(elements, "/")
}

// withoutCode returns the lines of a page; those of fenced code are empty.
func withoutCode(page string) []string {
	lines := strings.Split(page, "\n")
	code := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if code || fence {
			lines[i] = ""
		}
		code = code != fence
	}
	return lines
}

func TestOffencesAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"The operator reads the port and records an event.":       0,
		"The operator is told, be\nit late.":                      2,
		"An interface of\nbefore. It knows.":                      2,
		"Marshalled tasks ask; each basket is none.":              2,
		"Run\n```\nweft ask tell\n```\nand the pod is made anew.": 1,
	} {
		if got := offencesIn("pkg/a/b/c.go", 1, withoutCode(text)); len(got) != want || want > 0 && got[0].key != "pkg/a" {
			t.Errorf("%q: %v, want %d", text, got, want)
		}
	}
	if got := offencesIn("README.md", 7, []string{"", "be", "it"}); len(got) != 1 || got[0].at != "README.md:8" || got[0].key != "." {
		t.Errorf("%v", got)
	}
}
