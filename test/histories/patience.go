package histories

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// patience is how long a history waits for what must come; half a second is usual.
const patience = 30 * time.Second

// unheard is how often a wait looks again by itself.
const unheard = 50 * time.Millisecond

// breather is for how many times as long as the last look took the next one waits.
const breather = 3

// tidings wakes those who wait for a change of anything.
type tidings struct {
	mu   sync.Mutex
	next chan struct{}
}

// coming returns a channel that is closed at the next change.
func (n *tidings) coming() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

func (n *tidings) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

// until waits for the end of what is wrong, looking again at each change, and now and then for what has no event: that a unit was
// compared with the database and found right. The error says what was still wrong in the end.
func (n *tidings) until(limit time.Duration, wrong func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var last error
	for {
		change, began := n.coming(), time.Now()
		err := wrong(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // what was wrong, and not that there was no time left to look
			last = err
		}
		// Many changes become one look: else looking takes most of the time that those who are looked at need.
		time.Sleep(min(breather*time.Since(began), unheard))
		select {
		case <-change:
		case <-time.After(unheard):
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", limit, last)
		}
	}
}
