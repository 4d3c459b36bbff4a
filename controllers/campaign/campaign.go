// Package campaign runs the operator's process, whether it leads or not. It campaigns for the lease, gives the lease
// up while it cannot see the database, and serves the health of the process.
package campaign

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/leadership"
)

const (
	// aside is the shortest time for which a blind process stays away from the lease. Another process tries to take
	// the lease once per second (controllers.Lease).
	aside = 3 * time.Second
	// firstPause and lastPause bound the time for which the process stays away while the database does not respond.
	// The time doubles with each pause. It is bounded because a process must lead to report that the database is
	// away.
	firstPause = 8 * time.Second
	lastPause  = 60 * time.Second
)

// Campaign leads repeatedly. When it cannot see the database, it gives the lease up, so that a process that sees the
// database can take over. The process keeps running, because a crash loop would keep it away for minutes.
type Campaign struct {
	// Lead campaigns for the lease and leads until ctx ends or an error occurs. After ovndb.ErrBlind, or
	// ovndb.ErrFenced with leadership.ErrLost, Run continues. Any other error ends Run.
	Lead func(ctx context.Context) error
	// Await returns when a server responds that it serves the database.
	Await func(ctx context.Context) error
	// Answered, if set, is called when a database server responds again after this process gave up its lease because it could not reach
	// one, even if another process leads by then.
	Answered func()
	Log      logr.Logger
}

// Run returns when ctx ends, or with the first other error of Lead.
func (c *Campaign) Run(ctx context.Context) error {
	var queries sync.WaitGroup
	defer queries.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pause := firstPause
	var answer chan struct{} // closed when the database responds again; nil if no query is running
	for {
		began := time.Now()
		err := c.Lead(ctx)
		if ctx.Err() == nil && errors.Is(err, ovndb.ErrFenced) && errors.Is(err, leadership.ErrLost) {
			c.Log.Info("another process leads; campaigning again", "cause", err.Error())
			continue
		}
		if !errors.Is(err, ovndb.ErrBlind) || errors.Is(err, leadership.ErrHung) || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > 2*lastPause {
			pause = firstPause // it had seen the database before
		}
		c.Log.Info("gave up the lease", "reason", err.Error(), "pause", pause.String())
		if came(answer) {
			answer = make(chan struct{})
			queries.Go(func() { c.query(ctx, answer) })
		}
		standAside(ctx, pause, answer)
		pause = min(2*pause, lastPause)
	}
}

// came reports whether the answer has arrived.
func came(answer <-chan struct{}) bool {
	select {
	case <-answer:
		return true
	default:
		return answer == nil
	}
}

// query continues while another process leads, because nothing else would detect that this process could lead again.
func (c *Campaign) query(ctx context.Context, answer chan<- struct{}) {
	if c.Await(ctx) != nil {
		return
	}
	if c.Answered != nil {
		c.Answered()
	}
	close(answer)
}

// standAside returns when the database responds, or after the pause.
func standAside(ctx context.Context, pause time.Duration, answer <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	timer := time.NewTimer(aside)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	select {
	case <-ctx.Done():
	case <-answer:
	}
}
