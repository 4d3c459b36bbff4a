package invariantcheck

import (
	"context"
	"slices"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/invariant"
)

// The interval of the periodic check. It is a timer, because it finds what no event reported.
const (
	// interval is the time between two checks.
	interval = 5 * time.Minute
	// pause is the time between a check that found a violation and the check that confirms it. Counts are some
	// seconds late, and a transaction may take ten.
	pause = 30 * time.Second
)

// Watch checks the invariants periodically and stores the violations.
type Watch struct {
	// Evaluate returns the current violations. A change in flight may cause some of them.
	Evaluate func(ctx context.Context) ([]invariant.Violation, error)
	// Count, if set, receives the number of violations of each invariant after each check.
	Count func(name string, violations int)
	// Changed is called when Violations changes. It must only enqueue.
	Changed func()

	mu       sync.Mutex
	standing []invariant.Violation
}

// NewWatch returns a watch of the world that a reader reads.
func NewWatch(r *Reader, count func(name string, violations int), changed func()) *Watch {
	return &Watch{Evaluate: r.check, Count: count, Changed: changed}
}

// Violations returns the violations found by the last check.
func (w *Watch) Violations() []invariant.Violation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.standing
}

// Start checks until ctx ends.
func (w *Watch) Start(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	defer w.count(nil) // the next leader exports the counts
	w.count(nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			w.check(ctx)
		}
	}
}

// check replaces the violations. It keeps them if it cannot check.
func (w *Watch) check(ctx context.Context) {
	found, err := confirm(ctx, w.Evaluate, pause)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("cannot check the invariants; keeping the last result", "reason", err.Error())
		return
	}
	w.count(found)
	w.mu.Lock()
	same := slices.EqualFunc(w.standing, found, func(a, b invariant.Violation) bool { return a.String() == b.String() })
	w.standing = found
	w.mu.Unlock()
	if !same {
		w.Changed()
	}
}

func (w *Watch) count(found []invariant.Violation) {
	if w.Count == nil {
		return
	}
	times := map[string]int{}
	for _, v := range found {
		times[v.Invariant]++
	}
	for _, i := range invariant.All() {
		w.Count(i.Name, times[i.Name])
	}
}
