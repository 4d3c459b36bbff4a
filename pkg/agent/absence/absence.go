// Package absence measures how long a connection has been down.
package absence

import (
	"sync"
	"time"
)

// Absence measures how long an established connection has been down. A connection that was never established does not
// count. The zero value is a connection that was never established.
type Absence struct {
	mu    sync.Mutex
	there bool
	since time.Time // zero: the connection is up, or never was
}

// Note records whether the connection is up.
func (a *Absence) Note(up bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case up:
		a.since = time.Time{}
	case a.there:
		a.since = now
	}
	a.there = up
}

// ShorterThan reports whether the connection is down, and for less than limit.
func (a *Absence) ShorterThan(limit time.Duration, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.since.IsZero() && now.Sub(a.since) < limit
}
