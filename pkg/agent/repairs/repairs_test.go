package repairs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// world has a ledger with a clock of its own, and what the ledger did.
type world struct {
	*Ledger
	time     time.Time
	observed []string
	enqueued int
	delays   []time.Duration
}

func newWorld() *world {
	w := &world{time: time.Unix(0, 0)}
	w.Ledger = New(logr.Discard(), func(kind string) { w.observed = append(w.observed, kind) },
		func() { w.enqueued++ }, func(d time.Duration) { w.delays = append(w.delays, d) })
	w.now = func() time.Time { return w.time }
	return w
}

var table = Object{Kind: Nftables, Name: "table inet weft"}

func TestWhatIsARepair(t *testing.T) {
	type note struct {
		wanted  any
		changed bool
		err     error
	}
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		notes []note
		want  int
	}{
		"the first write of an agent":         {[]note{{"a", true, nil}}, 0},
		"nothing to write":                    {[]note{{"a", true, nil}, {"a", false, nil}}, 0},
		"another state is wanted":             {[]note{{"a", true, nil}, {"b", true, nil}}, 0},
		"the same state is written again":     {[]note{{"a", true, nil}, {"a", true, nil}}, 1},
		"after a failed repair":               {[]note{{"a", true, nil}, {"a", false, refused}, {"a", true, nil}}, 1},
		"back after a failed change":          {[]note{{"a", true, nil}, {"b", false, refused}, {"a", true, nil}}, 0},
		"each repair counts":                  {[]note{{"a", false, nil}, {"a", true, nil}, {"a", true, nil}}, 2},
		"wanted states are compared in depth": {[]note{{[]string{"a"}, true, nil}, {[]string{"a"}, true, nil}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			for _, n := range c.notes {
				w.Note(table, n.wanted, n.changed, n.err)
			}
			if got := slices.Repeat([]string{Nftables}, c.want); !slices.Equal(got, w.observed) {
				t.Errorf("repairs %v, want %v", w.observed, got)
			}
		})
	}
}

func TestAContestedObjectIsRepairedLater(t *testing.T) {
	w := newWorld()
	w.Note(table, "a", true, nil)
	for i := range limit + 1 {
		if err := w.Contested(); err != nil {
			t.Fatalf("after %d repairs: %v", i, err)
		}
		w.Changed(table, "firewalld")
		w.Note(table, "a", true, nil)
		w.time = w.time.Add(time.Second)
	}
	if w.enqueued != limit+1 || len(w.delays) != 0 {
		t.Fatalf("%d reconciliations at once and %v later, want %d at once", w.enqueued, w.delays, limit+1)
	}
	other := Object{Kind: Routes, Name: "routes of ovn-k8s-mp0"}
	w.Changed(other, "")
	w.Changed(table, "")
	if w.enqueued != limit+2 || !slices.Equal(w.delays, []time.Duration{pause}) {
		t.Errorf("%d reconciliations at once, and %v later", w.enqueued, w.delays)
	}
	w.ChangedOf(Routes, Rules)
	w.ChangedOf(Routes, Nftables)
	if w.enqueued != limit+3 || len(w.delays) != 2 {
		t.Errorf("for kinds: %d reconciliations at once, and %v later", w.enqueued, w.delays)
	}
	err := w.Contested()
	if err == nil || !strings.Contains(err.Error(), `a process named "firewalld" keeps changing table inet weft`) {
		t.Errorf("the error is %v", err)
	}
	if last := w.delays[len(w.delays)-1]; last != window-(limit+1)*time.Second {
		t.Errorf("the condition is computed again after %s", last)
	}
	w.time = w.time.Add(window - (limit+1)*time.Second)
	if err := w.Contested(); err != nil {
		t.Errorf("after a quiet minute: %v", err)
	}
	w.Changed(table, "")
	if w.enqueued != limit+4 {
		t.Error("after a quiet minute, the repair is not at once")
	}
}

// While the pauses alone space the repairs, the object stays contested.
func TestPausesKeepTheObjectContested(t *testing.T) {
	w := newWorld()
	for range 100 {
		w.Note(table, "a", true, nil)
		w.time = w.time.Add(pause + time.Second)
	}
	if w.Contested() == nil {
		t.Error("the object is not contested")
	}
}
