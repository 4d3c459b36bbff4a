package docs

import (
	"regexp"
	"strings"
	"testing"
)

var folder = regexp.MustCompile("`([a-z][a-z0-9/-]*)`")

// The table of paths has a row for each folder of the top, and for each package folder of the product. It names no folder that is gone.
func TestEachFolderHasAPage(t *testing.T) {
	_, table, found := strings.Cut(read(t, "docs/dev/README.md"), "\n## From a path to its page\n")
	if !found {
		t.Fatal("docs/dev/README.md has no table of paths")
	}
	named := map[string]bool{}
	for _, row := range strings.Split(table, "\n") {
		if cells := strings.Split(row, "|"); len(cells) == 4 {
			for _, match := range folder.FindAllStringSubmatch(cells[1], -1) {
				named[match[1]] = true
			}
		}
	}
	exists := map[string]bool{}
	for _, file := range files(t) {
		for i, c := range file {
			if c == '/' && !strings.HasPrefix(file, ".") {
				exists[file[:i]] = true
			}
		}
	}
	covered := map[string]bool{"docs": true, "cmd": true, "pkg": true} // the table itself, and parents of folders with rows
	for path := range exists {
		parent, rest, below := strings.Cut(path, "/")
		product := parent == "cmd" || parent == "controllers" || parent == "pkg"
		if below && (!product || strings.Contains(rest, "/")) || named[path] || covered[path] {
			continue
		}
		t.Errorf("the table of paths has no row for %s", path)
	}
	for path := range named {
		if !exists[path] {
			t.Errorf("the table of paths names %s, which is not there", path)
		}
	}
}
