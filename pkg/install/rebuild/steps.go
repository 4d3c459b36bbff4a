package rebuild

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Step reports how a step of a run ended.
type Step struct {
	Name string `json:"name"`
	// Detail describes the result in one line.
	Detail  string  `json:"detail,omitempty"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// step is an action of a run. For each change it makes, it immediately registers an undo function with run.onFailure.
type step struct {
	name string
	do   func(context.Context) (detail string, err error)
}

// run is one execution of steps.
type run struct {
	onStep func(Step)
	done   []Step
	undo   []undo // in the order of the changes

	committed bool
}

// undo reverts a change.
type undo struct {
	name string
	do   func(context.Context) error
}

// undoTimeout limits the time for all undo functions together.
const undoTimeout = time.Minute

// onFailure registers the function that reverts the latest change if this step or a later one fails.
func (r *run) onFailure(name string, do func(context.Context) error) {
	r.undo = append(r.undo, undo{name, do})
}

// commit discards the undo functions. From here on a run cannot be undone.
func (r *run) commit() { r.undo, r.committed = nil, true }

// steps runs the steps in order. If one fails, steps undoes all changes, even if ctx has ended.
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
	r.record(done)
	return err
}

func (r *run) record(done Step) {
	r.done = append(r.done, done)
	if r.onStep != nil {
		r.onStep(done)
	}
}

// back runs the undo functions in reverse order. An undo that fails does not stop the others.
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
