package controllers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/ovndb"
)

const (
	// aside is how long a process that was blind keeps away from the lease at the very least: another one that waits for it tries
	// once per retryPeriod.
	aside = 3 * retryPeriod
	// firstPause and lastPause bound how long it keeps away while the database does not answer: each time twice as long, since
	// somebody must lead to say that the database is away.
	firstPause = 8 * time.Second
	lastPause  = 60 * time.Second
)

// Campaign leads, and leads again after it could not see the database: the lease is given up meanwhile, so that a process that does
// see it can take over. The process stays: a crash loop would keep it away for minutes.
type Campaign struct {
	// Lead campaigns for the lease and leads until ctx ends or it cannot (ovndb.ErrBlind, or any other error, which ends Run).
	Lead func(ctx context.Context) error
	// Await returns when a server answers that it serves the database.
	Await func(ctx context.Context) error
	// Answered is told when a server does again, after a leadership that ended blind, be it that another process leads by then; nil: nobody is.
	Answered func()
	Log      logr.Logger
}

// Run returns when ctx ends, or with the error of Lead that is not ovndb.ErrBlind.
func (c *Campaign) Run(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pause := firstPause
	var answer chan struct{} // is closed when the database answers again; nil: it is not asked
	for {
		began := time.Now()
		err := c.Lead(ctx)
		if !errors.Is(err, ovndb.ErrBlind) || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > 2*lastPause {
			pause = firstPause // it had seen the database
		}
		c.Log.Info("gave up the lease", "reason", err.Error(), "pause", pause.String())
		if came(answer) {
			answer = make(chan struct{})
			asking.Go(func() { c.ask(ctx, answer) })
		}
		standAside(ctx, pause, answer)
		pause = min(2*pause, lastPause)
	}
}

// came reports whether there is nothing to wait for.
func came(answer <-chan struct{}) bool {
	select {
	case <-answer:
		return true
	default:
		return answer == nil
	}
}

// ask goes on while another process leads: nobody else would notice that this one could again.
func (c *Campaign) ask(ctx context.Context, answer chan<- struct{}) {
	if c.Await(ctx) != nil {
		return
	}
	if c.Answered != nil {
		c.Answered()
	}
	close(answer)
}

// standAside returns when the database answers, or after the pause.
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
