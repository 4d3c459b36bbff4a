package soak

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// account counts actions and keeps unexpected errors.
type account struct {
	mu      sync.Mutex
	adds    int
	counts  map[string]int // action -> count
	waiting map[int]chan struct{}
	wrong   []error
}

func newAccount() *account {
	return &account{counts: map[string]int{}, waiting: map[int]chan struct{}{}}
}

// count records an action.
func (a *account) count(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[what]++
}

// added records an ADD.
func (a *account) added() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.adds++
	if reached, ok := a.waiting[a.adds]; ok {
		close(reached)
	}
}

// enough reports whether there were at least this many ADDs.
func (a *account) enough(adds int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.adds >= adds
}

// reached returns a channel that is closed after this many ADDs. Call it only once per number.
func (a *account) reached(adds int) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	reached := make(chan struct{})
	if a.adds >= adds {
		close(reached)
		return reached
	}
	a.waiting[adds] = reached
	return reached
}

// fail records an unexpected error.
func (a *account) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrong = append(a.wrong, err)
}

// failures returns the first unexpected errors.
func (a *account) failures() error {
	const shown = 10
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d unexpected errors, the first: %w", len(a.wrong), errors.Join(a.wrong[:min(shown, len(a.wrong))]...))
}

// print prints the counts.
func (a *account) print(out io.Writer, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintf(out, "\n%d ADDs in %.0f s; all actions:\n", a.adds, took.Seconds())
	for _, what := range slices.Sorted(maps.Keys(a.counts)) {
		fmt.Fprintf(out, "%6d  %s\n", a.counts[what], what)
	}
}
