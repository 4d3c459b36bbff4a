package controllers

import (
	"context"
	"errors"
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
	Log   logr.Logger
}

// Run returns when ctx ends, or with the error of Lead that is not ovndb.ErrBlind.
func (c *Campaign) Run(ctx context.Context) error {
	pause := firstPause
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
		c.standAside(ctx, pause)
		pause = min(2*pause, lastPause)
	}
}

// standAside returns when the database answers, or after the pause.
func (c *Campaign) standAside(ctx context.Context, pause time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	timer := time.NewTimer(aside)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		_ = c.Await(ctx) // its error is the end of the pause
	}
}
