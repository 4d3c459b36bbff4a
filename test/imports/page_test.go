package imports

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the table in "+pagePath)

const (
	pagePath = "../../docs/dev/imports.md"
	begin    = "\n## The table\n\n```\n"
	end      = "```\n"
	// columns bounds the lines of the table, indent is where its lists begin.
	columns, indent = 120, 36
)

// groups are lists that rules share, with the names that the page gives them.
var groups = []struct {
	name  string
	paths []string
}{{"CLIENTS", clients}, {"MODELS", models}, {"MACHINERY", machines}}

// rendered returns the table as the page has it.
func rendered() string {
	var b strings.Builder
	for _, r := range table {
		name := r.packages
		for _, part := range []struct {
			title string
			paths []string
		}{{"imports", r.direct}, {"never", r.never}} {
			for i, line := range wrapped(named(part.paths)) {
				title := ""
				if i == 0 {
					title = part.title
				}
				fmt.Fprintf(&b, "%-27s%-9s%s\n", name, title, line)
				name = ""
			}
		}
	}
	return b.String()
}

// named sorts import paths: first the groups that are whole, then this module's packages without its prefix, then the
// others.
func named(paths []string) (found []string) {
	rest := slices.Clone(paths)
	for _, g := range groups {
		if slices.ContainsFunc(g.paths, func(path string) bool { return !slices.Contains(paths, path) }) {
			continue
		}
		found = append(found, g.name)
		rest = slices.DeleteFunc(rest, func(path string) bool { return slices.Contains(g.paths, path) })
	}
	var own, others []string
	for _, path := range rest {
		if name, ok := strings.CutPrefix(path, module); ok {
			own = append(own, name)
		} else {
			others = append(others, path)
		}
	}
	slices.Sort(own)
	slices.Sort(others)
	return append(append(found, own...), others...)
}

// wrapped joins names to lines that end within the table's columns.
func wrapped(names []string) (lines []string) {
	line := ""
	for i, name := range names {
		if i < len(names)-1 {
			name += ","
		}
		if line != "" && indent+len(line)+1+len(name) > columns {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += name
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

func TestThePageHasTheTable(t *testing.T) {
	text, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	listed, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no table below its heading", pagePath)
	}
	if *update {
		if err := os.WriteFile(pagePath, []byte(before+begin+rendered()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(rendered(), "\n"), strings.Split(listed, "\n")); diff != "" {
		t.Errorf("%s is stale; run go test ./test/imports -update (-rules +page):\n%s", pagePath, diff)
	}
}
