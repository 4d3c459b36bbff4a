package controllers

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/ovndb"
)

// PropagationInterval is the shortest time between two measurements of how long a change takes to every chassis.
const PropagationInterval = time.Minute

// tunnelInterval is how often nodes are asked through the network. Three answers must be missing: Open vSwitch may be replaced meanwhile.
const tunnelInterval = 15 * time.Second

// propagation measures that, after changes and not too often. If ovn-northd does not answer it goes on asking until it does: it is the one
// that nobody else sees.
type propagation struct {
	engine  *ovndb.Engine
	observe func(time.Duration)
	asked   chan struct{}
	told    func() // is called when silence begins or ends
	silence atomic.Pointer[string]
}

func newPropagation(engine *ovndb.Engine, observe func(time.Duration), told func()) *propagation {
	return &propagation{engine: engine, observe: observe, asked: make(chan struct{}, 1), told: told}
}

// silent says what ovn-northd does not answer; empty if it did when it was asked last.
func (p *propagation) silent() string {
	if why := p.silence.Load(); why != nil {
		return *why
	}
	return ""
}

// judge notes what the answer, or its absence, says of ovn-northd.
func (p *propagation) judge(err error) (again <-chan time.Time) {
	before := p.silent()
	switch {
	case errors.Is(err, ovndb.ErrNotCopied):
		why := err.Error()
		p.silence.Store(&why)
		again = time.After(PropagationInterval)
	case err == nil || before == "" || errors.Is(err, ovndb.ErrNotAll):
		p.silence.Store(nil)
	default: // nobody could be asked: what was known stays
		again = time.After(PropagationInterval)
	}
	if p.silent() != before {
		p.told()
	}
	return again
}

// ask wants a measurement of what was just written, unless one was made lately.
func (p *propagation) ask() {
	select {
	case p.asked <- struct{}{}:
	default:
	}
}

func (p *propagation) run(ctx context.Context) error {
	if p.observe == nil {
		return nil
	}
	var last time.Time
	var again <-chan time.Time // after silence
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-p.asked:
			if time.Since(last) < PropagationInterval {
				continue // what was written meanwhile is old when the time has come
			}
		}
		last = time.Now()
		took, err := p.engine.Propagation(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if again = p.judge(err); err == nil {
			p.observe(took)
		} else {
			ctrl.Log.WithName("propagation").V(1).Info("chassis do not all answer", "reason", err.Error())
		}
	}
}
