package controllers

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/ovndb"
)

// PropagationInterval is the shortest time between two measurements of how long a change takes to every chassis.
const PropagationInterval = time.Minute

// propagation measures that, after changes and not too often.
type propagation struct {
	engine  *ovndb.Engine
	observe func(time.Duration)
	asked   chan struct{}
}

func newPropagation(engine *ovndb.Engine, observe func(time.Duration)) *propagation {
	return &propagation{engine: engine, observe: observe, asked: make(chan struct{}, 1)}
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
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.asked:
			if time.Since(last) < PropagationInterval {
				continue // what was written meanwhile is old when the time has come
			}
			last = time.Now()
			if took, err := p.engine.Propagation(ctx); err == nil {
				p.observe(took)
			} else if ctx.Err() == nil {
				ctrl.Log.WithName("propagation").V(1).Info("chassis do not all answer", "reason", err.Error())
			}
		}
	}
}
