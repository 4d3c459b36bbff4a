package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weft-network/weft/test/poll"
	"github.com/weft-network/weft/test/sandbox"
	"github.com/weft-network/weft/test/testbed"
)

// Options sets the size of a soak.
type Options struct {
	Node    string
	ADDs    int    // least number of ADDs
	Pods    int    // pods that kubelet starts and ends
	Kills   int    // kills of the agent while the plugin runs; a third as many while kubelet is busy
	Workers int    // pods at a time
	Seed    uint64 // seed of all random choices
	Output  io.Writer
}

const (
	// warmUp is the number of ADDs before anything is counted, to fill pools and open lasting connections.
	warmUp = 24
	// quiet bounds how long leftovers may take to disappear: the agent reads the runtime's list after 2 minutes.
	quiet = 3 * time.Minute
	// still is how long no count may change before counting, which is longer than the delay of counts in a status.
	still = 12 * time.Second
)

// run is one soak.
type run struct {
	Options
	bed       *testbed.Bed
	sandboxes *sandbox.Client
	account   *account
	kills     *disturbances
	claims    *claims
}

// Run runs a soak. The error lists every leak and every unexplained failure of ADD or DEL.
func Run(ctx context.Context, b *testbed.Bed, o Options) error {
	fmt.Fprintf(o.Output, "soak: seed %d, %d ADDs by %d workers, %d kills, %d pods through kubelet\n", o.Seed, o.ADDs,
		o.Workers, o.Kills, o.Pods)
	sandboxes, err := b.Sandboxes(ctx, o.Node)
	if err != nil {
		return err
	}
	defer sandboxes.Close()
	r := &run{Options: o, bed: b, sandboxes: sandboxes, account: newAccount(), kills: &disturbances{}, claims: newClaims()}
	before, err := r.warm(ctx)
	if err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	r.account = newAccount()
	start := time.Now()
	if err := errors.Join(r.direct(ctx), r.throughKubelet(ctx)); err != nil {
		return err
	}
	busy := time.Since(start)
	after, err := r.settle(ctx, func(now Inventory) []string { return leaked(before, now) })
	r.account.print(o.Output, busy)
	if after == nil {
		return err
	}
	compare(o.Output, before, after)
	return errors.Join(err, r.account.failures())
}

// warm starts with a killed agent, as at the end, and counts.
func (r *run) warm(ctx context.Context) (Inventory, error) {
	k := &killer{run: r, rng: rand.New(rand.NewPCG(r.Seed, 1))}
	if err := k.kill(ctx); err != nil {
		return nil, err
	}
	few := *r
	few.ADDs = warmUp
	if err := few.work(ctx); err != nil {
		return nil, err
	}
	var last, fewest Inventory
	var since time.Time
	var changed []string
	_, err := r.settle(ctx, func(now Inventory) []string {
		if rest := now.atRest(); !slices.Equal(last, rest) {
			changed = append(leaked(last, rest), leaked(rest, last)...)
			last, fewest, since = rest, nil, time.Now()
		}
		fewest = least(fewest, now)
		if time.Since(since) < still {
			return append([]string{"the counts still change"}, changed...)
		}
		return nil
	})
	return fewest, err
}

// settle counts until wrong returns nothing. With an error it also returns the last counts.
func (r *run) settle(ctx context.Context, wrong func(Inventory) []string) (last Inventory, err error) {
	err = poll.Slowly(ctx, quiet, func() error {
		now, err := Take(ctx, r.bed, r.Node)
		if err != nil {
			return err
		}
		last = now
		if what := wrong(now); what != nil {
			return errors.New(strings.Join(what, "; "))
		}
		return nil
	})
	return last, err
}

// direct executes the plugin while the agent is killed.
func (r *run) direct(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var killed error
	var done sync.WaitGroup
	done.Go(func() {
		killed = (&killer{run: r, rng: rand.New(rand.NewPCG(r.Seed, 2))}).amongADDs(ctx)
	})
	err := r.work(ctx)
	if err != nil {
		cancel()
	}
	done.Wait()
	return errors.Join(err, killed)
}

// work makes workers execute the plugin until there were enough ADDs.
func (r *run) work(ctx context.Context) error {
	if r.ADDs == 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	for i := range r.Workers {
		workers.Go(func() {
			w := &worker{run: r, id: i, rng: rand.New(rand.NewPCG(r.Seed, uint64(100+i)))}
			if err := w.loop(ctx); err != nil {
				cancel(err)
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}
