package rebuild

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Step is how one step of a run went.
type Step struct {
	Name string `json:"name"`
	// Detail says what was done, in a line.
	Detail  string  `json:"detail,omitempty"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// step is one thing to do. What it changes it takes back by undo functions that it gives to run.onFailure at once.
type step struct {
	name string
	do   func(context.Context) (detail string, err error)
}

// run is one execution of steps.
type run struct {
	told func(Step)
	done []Step
	undo []undo // in the order of the changes

	committed bool
}

// undo takes back what a step changed.
type undo struct {
	name string
	do   func(context.Context) error
}

// undoTimeout bounds the whole way back.
const undoTimeout = time.Minute

// onFailure says how to take back what was just changed, should this step or a later one fail.
func (r *run) onFailure(name string, do func(context.Context) error) {
	r.undo = append(r.undo, undo{name, do})
}

// commit forgets how to take back: from here on there is only the way ahead.
func (r *run) commit() { r.undo, r.committed = nil, true }

// steps runs steps in their order; the first that fails ends the run and takes everything back, also when ctx has ended.
func (r *run) steps(ctx context.Context, steps []step) error {
	for _, s := range steps {
		err := r.step(ctx, s)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", s.name, err), r.back(context.WithoutCancel(ctx)))
		}
	}
	return nil
}

func (r *run) step(ctx context.Context, s step) error {
	start := time.Now()
	detail, err := s.do(ctx)
	done := Step{Name: s.name, Detail: detail, Seconds: time.Since(start).Seconds()}
	if err != nil {
		done.Error = err.Error()
	}
	r.note(done)
	return err
}

func (r *run) note(done Step) {
	r.done = append(r.done, done)
	if r.told != nil {
		r.told(done)
	}
}

// back undoes in reverse; one that fails does not stop the others.
func (r *run) back(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	var failed error
	for len(r.undo) > 0 {
		last := r.undo[len(r.undo)-1]
		r.undo = r.undo[:len(r.undo)-1]
		err := r.step(ctx, step{"undo: " + last.name, func(ctx context.Context) (string, error) { return "", last.do(ctx) }})
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("undo: %s: %w", last.name, err))
		}
	}
	return failed
}
