package database

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

// Propagation measures after writes, at a limited rate, how long a change takes to reach every chassis. While
// ovn-northd does not respond, it repeats the measurement, because nothing else observes ovn-northd.
type Propagation struct {
	// measure measures the last write.
	measure   func(ctx context.Context) (time.Duration, error)
	observe   func(time.Duration)
	requested chan struct{}
	changed   func()
	silence   atomic.Pointer[string]
}

// NewPropagation returns a measurement that passes its results to observe. If observe is nil, it measures nothing.
// changed is called when the silence of ovn-northd begins or ends.
func NewPropagation(engine *ovndb.Engine, observe func(time.Duration), changed func()) *Propagation {
	return &Propagation{measure: engine.Propagation, observe: observe, requested: make(chan struct{}, 1), changed: changed}
}

// Silent returns the request to which ovn-northd does not respond, or "" if it responded to the last one.
func (p *Propagation) Silent() string {
	if why := p.silence.Load(); why != nil {
		return *why
	}
	return ""
}

// judge records whether ovn-northd responded, and returns when to repeat the measurement.
func (p *Propagation) judge(err error) (again <-chan time.Time) {
	before := p.Silent()
	switch {
	case errors.Is(err, ovndb.ErrNotCopied):
		why := err.Error()
		p.silence.Store(&why)
		again = time.After(PropagationInterval)
	case err == nil || before == "" || errors.Is(err, ovndb.ErrNotAll):
		p.silence.Store(nil)
	default: // no request was sent: the last result stays
		again = time.After(PropagationInterval)
	}
	if p.Silent() != before {
		p.changed()
	}
	return again
}

// Request requests a measurement of the last write, at the latest PropagationInterval after the former measurement. It does not
// wait.
func (p *Propagation) Request() {
	select {
	case p.requested <- struct{}{}:
	default:
	}
}

// Run measures until ctx ends.
func (p *Propagation) Run(ctx context.Context) error {
	if p.observe == nil {
		return nil
	}
	var last time.Time
	var again <-chan time.Time // not nil while ovn-northd is silent, or a write is not measured yet
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-p.requested:
			if wait := PropagationInterval - time.Since(last); wait > 0 {
				if again == nil { // one measurement covers all writes until then
					again = time.After(wait)
				}
				continue
			}
		}
		last = time.Now()
		took, err := p.measure(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if again = p.judge(err); err == nil {
			p.observe(took)
		} else {
			ctrl.Log.WithName("propagation").V(1).Info("not every chassis responds", "reason", err.Error())
		}
	}
}
