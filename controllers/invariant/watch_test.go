package invariant

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weft-network/weft/pkg/invariant"
)

// scene is a watch whose looks are written down before.
type scene struct {
	*Watch
	mu      sync.Mutex // held by what Watch calls
	looks   [][]string // invariants that each look finds violated; the last stays
	err     error
	looked  []time.Duration // when, since the start
	changes int
	counts  map[string]int
	began   time.Time
}

func start(t *testing.T, looks ...[]string) *scene {
	t.Helper()
	s := &scene{looks: looks, counts: map[string]int{}, began: time.Now()}
	s.Watch = &Watch{Look: s.look, Changed: func() {
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

func (s *scene) look(context.Context) (found []invariant.Violation, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = append(s.looked, time.Since(s.began))
	for _, name := range s.looks[0] {
		found = append(found, invariant.Violation{Invariant: name, Message: "something"})
	}
	if len(s.looks) > 1 {
		s.looks = s.looks[1:]
	}
	return found, s.err
}

// after lets time pass. What the test did before, it did before Watch goes on: the lock says so to the race detector.
func (s *scene) after(d time.Duration) {
	s.mu.Lock()
	s.mu.Unlock() //nolint:staticcheck // an empty section orders both sides
	time.Sleep(d)
	synctest.Wait()
}

func TestViolationThatStaysIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, []string{"UniqueMAC", "PodHasPort"}, []string{"UniqueMAC"}, nil)
		s.after(interval)
		if len(s.Violations()) != 0 || s.changes != 0 {
			t.Fatalf("at the first look violated is %v already", s.Violations())
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
		if len(s.looked) != 3 || s.looked[1] != interval+pause {
			t.Errorf("looked after %v", s.looked)
		}
	})
}

func TestTheSameViolationIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, []string{"UniqueMAC"})
		s.after(4 * interval)
		if s.changes != 1 || len(s.looked) < 6 {
			t.Errorf("told %d times after %d looks, want once", s.changes, len(s.looked))
		}
	})
}

func TestWhatIsKnownStaysWhileTheDatabaseIsAway(t *testing.T) {
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
