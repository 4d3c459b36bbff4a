package ovndbtest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Waiter is an engine or a connection.
type Waiter interface {
	// Wait returns when ready does, which it calls at each change of the database or the connection.
	Wait(ctx context.Context, ready func() (bool, error)) error
}

// Await waits until ok returns true, at most 20 s. It calls ok at each change of the database or the connection.
func Await(t testing.TB, w Waiter, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Second, errors.New("timeout"))
	defer cancel()
	if err := w.Wait(ctx, func() (bool, error) { return ok(), nil }); err != nil {
		t.Fatalf("%s did not come: %v", what, err)
	}
}
