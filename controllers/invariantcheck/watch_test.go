package invariantcheck

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weft-network/weft/pkg/invariant"
)

// scene is a watch with scripted results.
type scene struct {
	*Watch
	mu        sync.Mutex // held by Watch's callbacks
	results   [][]string // violated invariants of each evaluation; the last repeats
	err       error
	evaluated []time.Duration // times of the evaluations since the start
	changes   int
	counts    map[string]int
	began     time.Time
}

func start(t *testing.T, results ...[]string) *scene {
	t.Helper()
	s := &scene{results: results, counts: map[string]int{}, began: time.Now()}
	s.Watch = &Watch{Evaluate: s.evaluate, Changed: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changes++
	}, Count: func(name string, n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counts[name] = n
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *scene) evaluate(context.Context) (found []invariant.Violation, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evaluated = append(s.evaluated, time.Since(s.began))
	for _, name := range s.results[0] {
		found = append(found, invariant.Violation{Invariant: name, Message: "something"})
	}
	if len(s.results) > 1 {
		s.results = s.results[1:]
	}
	return found, s.err
}

// after advances the clock. The lock orders the test's earlier actions before Watch's next ones for the race
// detector.
func (s *scene) after(d time.Duration) {
	s.mu.Lock()
	s.mu.Unlock() //nolint:staticcheck // an empty section orders both sides
	time.Sleep(d)
	synctest.Wait()
}

func TestPersistentViolationIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, []string{"UniqueMAC", "PodHasPort"}, []string{"UniqueMAC"}, nil)
		s.after(interval)
		if len(s.Violations()) != 0 || s.changes != 0 {
			t.Fatalf("violated is %v after the first evaluation already", s.Violations())
		}
		s.after(pause)
		if got := s.Violations(); len(got) != 1 || got[0].Invariant != "UniqueMAC" || s.changes != 1 {
			t.Fatalf("violated is %v after %d changes, want UniqueMAC after 1", got, s.changes)
		}
		if s.counts["UniqueMAC"] != 1 || s.counts["PodHasPort"] != 0 || len(s.counts) != len(invariant.All()) {
			t.Errorf("counts are %v", s.counts)
		}
		s.after(interval)
		if got := s.Violations(); len(got) != 0 || s.changes != 2 || s.counts["UniqueMAC"] != 0 {
			t.Errorf("violated is %v after %d changes, want nothing after 2", got, s.changes)
		}
		if len(s.evaluated) != 3 || s.evaluated[1] != interval+pause {
			t.Errorf("evaluated after %v", s.evaluated)
		}
	})
}

func TestTheSameViolationIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, []string{"UniqueMAC"})
		s.after(4 * interval)
		if s.changes != 1 || len(s.evaluated) < 6 {
			t.Errorf("%d reports after %d evaluations, want one", s.changes, len(s.evaluated))
		}
	})
}

func TestViolationsStayWhileTheDatabaseIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, []string{"UniqueMAC"})
		s.after(interval + pause)
		s.err = errors.New("not connected")
		s.after(2 * interval)
		if len(s.Violations()) != 1 || s.counts["UniqueMAC"] != 1 || s.changes != 1 {
			t.Errorf("violated is %v after %d changes", s.Violations(), s.changes)
		}
	})
}
