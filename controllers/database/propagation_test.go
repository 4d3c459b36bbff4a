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

// Only ovn-northd's own silence counts. It ends with northd's response, whether or not all chassis respond.
func TestNorthdIsSilentUntilItAnswers(t *testing.T) {
	changes := 0
	p := NewPropagation(&ovndb.Engine{}, nil, func() { changes++ })
	for i, step := range []struct {
		err           error
		silent, again bool
		changes       int
	}{
		{nil, false, false, 0},
		{errors.New("offline"), false, false, 0},
		{ovndb.ErrNotAll, false, false, 0},
		{fmt.Errorf("request: %w", ovndb.ErrNotCopied), true, true, 1},
		{ovndb.ErrNotCopied, true, true, 2},
		{errors.New("offline"), true, true, 2},
		{ovndb.ErrNotAll, false, false, 3},
		{ovndb.ErrNotCopied, true, true, 4},
		{nil, false, false, 5},
	} {
		again := p.judge(step.err)
		if (p.Silent() != "") != step.silent || (again != nil) != step.again || changes != step.changes {
			t.Errorf("step %d, %v: silent %q, measures again %v, %d changes; want %+v", i, step.err, p.Silent(),
				again != nil, changes, step)
		}
	}
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
