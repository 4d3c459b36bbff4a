package style

import (
	"regexp"
	"testing"
)

// marker is a line that a merge with conflicts leaves in a file.
var marker = regexp.MustCompile(`(?m)^(<{7}|>{7})( |$)`)

// No source and no page has the traces of a merge that was committed with its conflicts.
func TestNoConflictMarkers(t *testing.T) {
	for _, extension := range []string{".go", ".md", ".yaml", "Makefile"} {
		for _, path := range files(t, extension) {
			if found := marker.FindString(read(t, path)); found != "" {
				t.Errorf("%s has a conflict marker: %s", path, found)
			}
		}
	}
	if !marker.MatchString("a\n<<<<<<< HEAD\nb\n") || marker.MatchString("a <<<<<<< b\n=======\n") {
		t.Error("markers are not found")
	}
}
