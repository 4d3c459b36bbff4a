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

// account counts what was done and keeps what should not have happened.
type account struct {
	mu      sync.Mutex
	adds    int
	counts  map[string]int // what -> how often
	waiting map[int]chan struct{}
	wrong   []error
}

func newAccount() *account {
	return &account{counts: map[string]int{}, waiting: map[int]chan struct{}{}}
}

// count notes that something happened.
func (a *account) count(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[what]++
}

// added notes an ADD.
func (a *account) added() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.adds++
	if reached, ok := a.waiting[a.adds]; ok {
		close(reached)
	}
}

// enough reports whether there were as many ADDs.
func (a *account) enough(adds int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.adds >= adds
}

// reached is closed when there were as many ADDs. One asks for each number once.
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

// fail notes what should not have happened.
func (a *account) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrong = append(a.wrong, err)
}

// failures are the first of what should not have happened.
func (a *account) failures() error {
	const told = 10
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d things went wrong, the first: %w", len(a.wrong), errors.Join(a.wrong[:min(told, len(a.wrong))]...))
}

// print writes what was done.
func (a *account) print(out io.Writer, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintf(out, "\n%d ADDs in %.0f s, of them and of what came with them:\n", a.adds, took.Seconds())
	for _, what := range slices.Sorted(maps.Keys(a.counts)) {
		fmt.Fprintf(out, "%6d  %s\n", a.counts[what], what)
	}
}
