// Package poll repeats a check in a test until it passes. Tests wait through it instead of with loops of their own.
package poll

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Interval is the pause between two checks of Until and Eventually. SlowInterval is that of Slowly.
const (
	Interval     = 20 * time.Millisecond
	SlowInterval = 100 * time.Millisecond
)

// T is the part of testing.TB that this package uses. Its context is not used, because it ends before the functions of
// Cleanup run.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Wait says how to repeat a check. Without Interval and Changes the check runs once.
type Wait struct {
	// Timeout is how long the check may fail.
	Timeout time.Duration
	// Interval is the pause between two checks; 0: only a change repeats the check.
	Interval time.Duration
	// Changes, if set, is called before each check. The channel that it returns is closed, or receives a value, at the
	// next change.
	Changes func() <-chan struct{}
}

// Until calls check until it returns nil. Its error says how long it waited, and wraps the last error of check.
func (w Wait) Until(ctx context.Context, check func() error) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	var tick <-chan time.Time
	if w.Interval > 0 {
		ticker := time.NewTicker(w.Interval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		var change <-chan struct{}
		if w.Changes != nil {
			change = w.Changes()
		}
		err := check()
		if err == nil {
			return nil
		}
		if tick == nil && change == nil {
			return err
		}
		select {
		case <-tick:
		case <-change:
		case <-ctx.Done():
			return fmt.Errorf("timed out after %s: %w", time.Since(begun).Round(time.Millisecond), err)
		}
	}
}

// Eventually is Until, and ends the test if the check does not pass in time.
func (w Wait) Eventually(t T, check func() error) {
	t.Helper()
	if err := w.Until(context.Background(), check); err != nil {
		t.Fatal(err)
	}
}

// Until repeats a check every Interval until it returns nil.
func Until(ctx context.Context, timeout time.Duration, check func() error) error {
	return Wait{Timeout: timeout, Interval: Interval}.Until(ctx, check)
}

// Slowly is Until for a check that costs much, such as a command on another machine.
func Slowly(ctx context.Context, timeout time.Duration, check func() error) error {
	return Wait{Timeout: timeout, Interval: SlowInterval}.Until(ctx, check)
}

// Eventually is Until, and ends the test if the check does not pass in time.
func Eventually(t T, timeout time.Duration, check func() error) {
	t.Helper()
	Wait{Timeout: timeout, Interval: Interval}.Eventually(t, check)
}

// True returns a check that passes when is returns true. Its error names what.
func True(what string, is func() bool) func() error {
	return func() error {
		if !is() {
			return fmt.Errorf("not so: %s", what)
		}
		return nil
	}
}

// Changes wakes goroutines that wait for any change. Next suits Wait.Changes. The zero value is ready to use.
type Changes struct {
	mu   sync.Mutex
	next chan struct{}
}

// Next returns a channel that is closed at the next change.
func (c *Changes) Next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// Notify is called after each change.
func (c *Changes) Notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}
