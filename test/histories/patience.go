package histories

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// patience bounds how long a history waits for an expected event; half a second is usual.
const patience = 90 * time.Second

// recheck is the interval of checks without an event.
const recheck = 50 * time.Millisecond

// breather is the least pause between two checks, as a multiple of the previous check's duration.
const breather = 3

// notifier wakes waiting goroutines at any change.
type notifier struct {
	mu   sync.Mutex
	next chan struct{}
}

// coming returns a channel that is closed at the next change.
func (n *notifier) coming() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

// notify wakes all that wait for a change.
func (n *notifier) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

// until waits until wrong returns nil. It calls wrong at each change, and periodically for what has no event: the
// comparison of a unit that needs no change. The error is wrong's last error.
func (n *notifier) until(limit time.Duration, wrong func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var last error
	for {
		change, began := n.coming(), time.Now()
		err := wrong(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // keep the real error, not that the time ran out
			last = err
		}
		// Several changes lead to one check. Otherwise the checks would take most of the time that the checked
		// processes need.
		time.Sleep(min(breather*time.Since(began), recheck))
		select {
		case <-change:
		case <-time.After(recheck):
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", limit, last)
		}
	}
}
