package ovndb

import (
	"context"
	"errors"
	"time"
)

const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// backoff is the pause between connection attempts. It doubles from 50 ms to 5 s, without an end.
type backoff struct{ next time.Duration }

func newBackoff() *backoff { return &backoff{next: firstRetry} }

func (b *backoff) reset() { b.next = firstRetry }

func (b *backoff) wait(ctx context.Context) {
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	b.next = min(2*b.next, lastRetry)
}

// fatal reports whether an error ends a connection for good.
func fatal(err error) bool { return errors.Is(err, ErrFenced) }
