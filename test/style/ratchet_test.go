package style

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "lower the counts in testdata to those of the tree")

// offence is one line that a ratchet counts.
type offence struct {
	key  string // of the list: a file or a folder
	at   string // file:line
	what string
}

// ratchet compares offences with the counts of a list in testdata; with -update it writes the list.
func ratchet(t *testing.T, list string, offences []offence) {
	t.Helper()
	found := map[string][]offence{}
	for _, o := range offences {
		found[o.key] = append(found[o.key], o)
	}
	allowed := readCounts(t, list)
	if *update {
		writeCounts(t, list, allowed, found)
		return
	}
	for _, message := range excesses(allowed, found) {
		t.Error(message)
	}
}

// excesses names every place that has more offences than its count.
func excesses(allowed map[string]int, found map[string][]offence) (messages []string) {
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if len(found[key]) <= allowed[key] {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s has %d, its count in testdata is %d; remove what is new:", key, len(found[key]), allowed[key])
		for _, o := range found[key] {
			fmt.Fprintf(&b, "\n\t%s: %s", o.at, o.what)
		}
		messages = append(messages, b.String())
	}
	return messages
}

// readCounts reads a list; an absent list is nil.
func readCounts(t *testing.T, list string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", list))
	if os.IsNotExist(err) && *update {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var key string
		var count int
		if _, err := fmt.Sscanf(line, "%d %s", &count, &key); err != nil {
			t.Fatalf("%s: %q: %v", list, line, err)
		}
		counts[key] = count
	}
	return counts
}

// writeCounts writes a list, unless the sum of its counts would grow. An absent list is written whatever its sum.
func writeCounts(t *testing.T, list string, allowed map[string]int, found map[string][]offence) {
	t.Helper()
	before, now := 0, 0
	for _, count := range allowed {
		before += count
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(found)) {
		now += len(found[key])
		fmt.Fprintf(&b, "%d %s\n", len(found[key]), key)
	}
	if allowed != nil && now > before {
		t.Fatalf("%s would grow from %d to %d: mend what is new\n%s", list, before, now, strings.Join(excesses(allowed, found), "\n"))
	}
	if err := os.WriteFile(filepath.Join("testdata", list), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestARatchetRefusesWhatIsNew(t *testing.T) {
	two := []offence{{"a", "a:1", "x"}, {"a", "a:2", "x"}}
	for _, c := range []struct {
		name    string
		allowed map[string]int
		want    int
	}{{"as many", map[string]int{"a": 2}, 0}, {"fewer than before", map[string]int{"a": 3}, 0}, {"one more", map[string]int{"a": 1}, 1},
		{"not listed", map[string]int{"b": 9}, 1}} {
		if got := excesses(c.allowed, map[string][]offence{"a": two}); len(got) != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
