package chassis

import (
	"slices"
	"testing"
	"time"
)

func TestLeft(t *testing.T) {
	set := func(names ...string) map[string]bool {
		found := map[string]bool{}
		for _, name := range names {
			found[name] = true
		}
		return found
	}
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	l := left{after: time.Minute}
	for i, step := range []struct {
		second      int
		here, nodes map[string]bool
		want        []string
	}{
		{0, set("n1", "n2", "n3"), set("n1"), nil},
		{50, set("n1", "n2", "n3"), set("n1", "n3"), nil}, // n3 is a new node
		{60, set("n1", "n2", "n3"), set("n1", "n3"), []string{"n2"}},
		{61, set("n1", "n2", "n3"), set("n1", "n3"), nil},  // the copy is a step behind
		{300, set("n1", "n2", "n3"), set("n1", "n3"), nil}, // its ovn-controller runs
		{301, set("n1", "n2", "n3"), set("n1", "n2", "n3"), nil},
		{302, set("n1", "n2", "n3"), set("n1", "n3"), nil}, // it was a node for a moment
		{361, set("n1", "n2", "n3"), set(), nil},           // the northbound database is lost
		{362, set("n1", "n2", "n3"), set("n1", "n3"), nil},
		{421, set("n1", "n2", "n3"), set("n1", "n3"), nil},
		{422, set("n1", "n2", "n3"), set("n1", "n3"), []string{"n2"}},
	} {
		got := l.compare(step.here, step.nodes, at(step.second))
		if !slices.Equal(got, step.want) {
			t.Fatalf("step %d: remove %q, want %q", i, got, step.want)
		}
		for _, name := range got {
			l.removed(name)
		}
	}
	if l.next(at(500)) != nil {
		t.Error("a timer runs, although nothing is to be removed")
	}
}
