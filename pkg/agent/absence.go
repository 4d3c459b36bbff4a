package agent

import (
	"sync"
	"time"
)

// absence is how long a connection that was there is not. One that never was is not absent.
type absence struct {
	mu    sync.Mutex
	there bool
	since time.Time // zero: it is there, or never was
}

// note takes what the connection tells: it is there, or not.
func (a *absence) note(there bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case there:
		a.since = time.Time{}
	case a.there:
		a.since = now
	}
	a.there = there
}

// shorterThan reports whether it is absent, and not for so long yet.
func (a *absence) shorterThan(limit time.Duration, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.since.IsZero() && now.Sub(a.since) < limit
}
