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

// Chassis that do not all acknowledge are waited for so many times at PropagationInterval, and then at lateInterval: the chassis of a node
// that is down acknowledges nothing, and each measurement costs the others a write.
const (
	lateMeasurements = 10
	lateInterval     = 10 * time.Minute
)

// Propagation measures after writes, at a limited rate, how long a change takes to reach every chassis. While ovn-northd or a chassis
// does not respond, it repeats the measurement, because nothing else observes them together.
type Propagation struct {
	// measure measures the last write.
	measure   func(ctx context.Context) (time.Duration, error)
	observe   func(time.Duration)
	requested chan struct{}
	changed   func()
	verdict   atomic.Pointer[verdict]
}

// verdict is what the last measurements say.
type verdict struct {
	silent string    // the request to which ovn-northd did not respond
	missed int       // measurements in a row that not every chassis acknowledged
	since  time.Time // when the first of them ended
}

// NewPropagation returns a measurement that passes its results to observe. If observe is nil, it measures nothing.
// changed is called when the silence of ovn-northd, or of chassis, begins or ends.
func NewPropagation(engine *ovndb.Engine, observe func(time.Duration), changed func()) *Propagation {
	p := &Propagation{measure: engine.Propagation, observe: observe, requested: make(chan struct{}, 1), changed: changed}
	p.verdict.Store(&verdict{})
	return p
}

// Silent returns the request to which ovn-northd does not respond, or "" if it responded to the last one.
func (p *Propagation) Silent() string { return p.verdict.Load().silent }

// Late returns since when not every chassis has acknowledged the changes. It is zero unless two measurements in a row say so: one may
// have met a restart.
func (p *Propagation) Late() time.Time { return p.verdict.Load().late() }

func (v *verdict) late() time.Time {
	if v.missed < 2 {
		return time.Time{}
	}
	return v.since
}

// judge records who responded, and returns when to repeat the measurement.
func (p *Propagation) judge(err error) (again <-chan time.Time) {
	before := p.verdict.Load()
	now := &verdict{}
	switch {
	case errors.Is(err, ovndb.ErrNotCopied):
		now.silent, again = err.Error(), time.After(PropagationInterval)
	case errors.Is(err, ovndb.ErrNotAll):
		now.missed, now.since = before.missed+1, before.since
		switch {
		case now.missed == 1: // it has taken a minute, or another measurement has begun
			now.since, again = time.Now(), time.After(time.Second)
		case now.missed <= lateMeasurements:
			again = time.After(PropagationInterval)
		default:
			again = time.After(lateInterval)
		}
	case err != nil: // no request was sent: the last result stays
		if now = before; *now != (verdict{}) {
			again = time.After(PropagationInterval)
		}
	}
	if p.verdict.Store(now); now.silent != before.silent || !now.late().Equal(before.late()) {
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
	var again <-chan time.Time // not nil while ovn-northd or a chassis is silent, or a write is not measured yet
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
