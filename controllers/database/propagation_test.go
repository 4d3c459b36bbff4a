package database

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weft-network/weft/pkg/ovndb"
)

// ovn-northd is silent after one measurement, and chassis are late after two. Either ends when all respond, and a measurement that could
// not be made changes nothing.
func TestJudge(t *testing.T) {
	changes := 0
	p := NewPropagation(&ovndb.Engine{}, nil, func() { changes++ })
	offline := errors.New("offline")
	for i, step := range []struct {
		err                 error
		silent, late, again bool
		changes             int
	}{
		{nil, false, false, false, 0},
		{offline, false, false, false, 0},
		{ovndb.ErrNotAll, false, false, true, 0},
		{fmt.Errorf("request: %w", ovndb.ErrNotCopied), true, false, true, 1},
		{ovndb.ErrNotCopied, true, false, true, 2}, // another message
		{offline, true, false, true, 2},
		{ovndb.ErrNotAll, false, false, true, 3},
		{offline, false, false, true, 3},
		{ovndb.ErrNotAll, false, true, true, 4},
		{offline, false, true, true, 4},
		{ovndb.ErrNotAll, false, true, true, 4},
		{ovndb.ErrNotCopied, true, false, true, 5},
		{nil, false, false, false, 6},
	} {
		again := p.judge(step.err)
		if (p.Silent() != "") != step.silent || p.Late().IsZero() == step.late || (again != nil) != step.again || changes != step.changes {
			t.Errorf("step %d, %v: silent %q, late %v, measures again %v, %d changes; want %+v", i, step.err, p.Silent(), p.Late(),
				again != nil, changes, step)
		}
	}
}

// A chassis that never acknowledges, as that of a node that is down, is measured every ten minutes in the end.
func TestALateChassisIsMeasuredLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		measured := 0
		p := NewPropagation(&ovndb.Engine{}, func(time.Duration) {}, func() {})
		p.measure = func(context.Context) (time.Duration, error) {
			measured++
			return 0, ovndb.ErrNotAll
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		p.Request()
		time.Sleep(70*time.Minute + time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if want := 2 + lateMeasurements + 5; measured != want {
			t.Errorf("%d measurements in 70 minutes, want %d", measured, want)
		}
	})
}

// Writes after a measurement are measured once, when the interval is over, and without writes nothing is.
func TestWritesAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var measured []time.Duration
		began := time.Now()
		p := NewPropagation(&ovndb.Engine{}, func(time.Duration) {}, func() {})
		p.measure = func(context.Context) (time.Duration, error) {
			measured = append(measured, time.Since(began))
			return 0, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		for _, at := range []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, 200 * time.Second} {
			time.Sleep(at - time.Since(began))
			p.Request()
			p.Request()
		}
		time.Sleep(time.Hour)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want := []time.Duration{10 * time.Second, 70 * time.Second, 200 * time.Second}
		for _, at := range measured[min(len(want), len(measured)):] {
			if at > want[len(want)-1]+PropagationInterval {
				t.Errorf("measured after %s without a write", at)
			}
		}
		if !slices.Equal(measured[:min(len(want), len(measured))], want) {
			t.Errorf("measured after %v, want %v", measured, want)
		}
	})
}
