package style

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is the longest line; a tab counts as one column.
const maxColumns = 139

// Lines of Go stay under 140 columns. Markers for code generators cannot be broken and do not count.
func TestLinesAreShort(t *testing.T) {
	var long []offence
	for _, s := range sources(t) {
		number := 0
		for line := range strings.Lines(s.text) {
			number++
			line = strings.TrimRight(line, "\n")
			columns := utf8.RuneCountInString(line)
			trimmed := strings.TrimSpace(line)
			marker := strings.HasPrefix(trimmed, "// +") || strings.HasPrefix(trimmed, "//go:")
			if columns > maxColumns && !marker {
				long = append(long, offence{s.path, fmt.Sprintf("%s:%d", s.path, number), fmt.Sprintf("%d columns", columns)})
			}
		}
	}
	ratchet(t, "long_lines.txt", long)
}
