package poll

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errNotYet = errors.New("not yet")

// after returns a check that passes at the n-th call.
func after(n int, calls *int) func() error {
	return func() error {
		if *calls++; *calls < n {
			return errNotYet
		}
		return nil
	}
}

func TestUntil(t *testing.T) {
	const half = 500 * time.Millisecond
	for name, c := range map[string]struct {
		wait  Wait
		never bool // there is a channel of changes, and no change
		n     int  // the call that passes
		calls int  // that were made
		err   error
		took  time.Duration
	}{
		"at once":            {wait: Wait{Timeout: time.Minute, Interval: time.Second}, n: 1, calls: 1},
		"after three checks": {wait: Wait{Timeout: time.Minute, Interval: time.Second}, n: 4, calls: 4, took: 3 * time.Second},
		"not in time":        {wait: Wait{Timeout: 5 * half, Interval: time.Second}, n: 9, calls: 3, err: errNotYet, took: 5 * half},
		"nothing repeats it": {wait: Wait{Timeout: time.Minute}, n: 2, calls: 1, err: errNotYet},
		"no change":          {wait: Wait{Timeout: time.Minute}, never: true, n: 2, calls: 1, err: errNotYet, took: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.never {
					change := make(chan struct{})
					c.wait.Changes = func() <-chan struct{} { return change }
				}
				calls, begun := 0, time.Now()
				err := c.wait.Until(t.Context(), after(c.n, &calls))
				took := time.Since(begun)
				if calls != c.calls || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || took != c.took {
					t.Errorf("%d checks in %s, error %v; want %d in %s, error %v", calls, took, err, c.calls, c.took, c.err)
				}
			})
		})
	}
}

// A change between a check and the wait after it is not missed, because the channel is made before the check.
func TestChanges(t *testing.T) {
	calls, made := 0, 0
	change := make(chan struct{}, 1)
	wait := Wait{Timeout: time.Minute, Changes: func() <-chan struct{} { made++; return change }}
	err := wait.Until(t.Context(), func() error {
		if made != calls+1 {
			t.Errorf("check %d came before its channel", calls+1)
		}
		change <- struct{}{}
		return after(3, &calls)()
	})
	if err != nil || calls != 3 {
		t.Errorf("%d checks, error %v; want 3", calls, err)
	}
}

func TestCancellationEndsIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Until(ctx, time.Minute, True("the sky falls", func() bool { return false })); err == nil {
		t.Error("no error after the cancellation")
	}
}
