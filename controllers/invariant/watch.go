package invariant

import (
	"context"
	"slices"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/invariant"
)

// The slow clock. It is a timer and no event, since what it looks for is what no event told of.
const (
	// interval is the time between two checks.
	interval = 5 * time.Minute
	// pause is the time between a check that found something and the one that confirms it: counts are some seconds late, and a
	// transaction may take ten.
	pause = 30 * time.Second
)

// Watch checks the invariants on a slow clock and remembers what does not hold.
type Watch struct {
	// Look returns what does not hold at this moment, be it for long or not.
	Look func(ctx context.Context) ([]invariant.Violation, error)
	// Count is told how often an invariant is violated, after each check and for each of them; it may be nil.
	Count func(name string, violations int)
	// Changed is called when Violations changed. It must only enqueue.
	Changed func()

	mu       sync.Mutex
	standing []invariant.Violation
}

// NewWatch returns a watch of the world that a reader reads.
func NewWatch(r *Reader, count func(name string, violations int), changed func()) *Watch {
	return &Watch{Look: r.look, Count: count, Changed: changed}
}

// Violations returns what did not hold at the last check.
func (w *Watch) Violations() []invariant.Violation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.standing
}

// Start checks until ctx ends.
func (w *Watch) Start(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	defer w.count(nil) // the next leader counts
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

// check keeps what was known while it cannot look.
func (w *Watch) check(ctx context.Context) {
	found, err := lookTwice(ctx, w.Look, pause)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("invariants are not checked", "reason", err.Error())
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
