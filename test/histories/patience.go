package histories

import (
	"context"
	"fmt"
	"time"

	"github.com/weft-network/weft/test/poll"
)

// patience bounds how long a history waits for an expected event; half a second is usual.
const patience = 90 * time.Second

// recheck is the interval of checks without an event.
const recheck = 50 * time.Millisecond

// breather is the least pause between two checks, as a multiple of the previous check's duration.
const breather = 3

// until waits until wrong returns nil. It calls wrong at each change, and periodically for what has no event: the
// comparison of a unit that needs no change. The error is wrong's last error.
func until(changes *poll.Changes, limit time.Duration, wrong func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var last error
	for {
		change, began := changes.Next(), time.Now()
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
