package rebuild

import (
	"context"
	"errors"
	"slices"
	"testing"
)

func TestAFailureIsTakenBackInReverse(t *testing.T) {
	broken := errors.New("broken")
	ctx, cancel := context.WithCancel(t.Context())
	var happened []string
	r := &run{}
	change := func(name string, err error) step {
		return step{name, func(context.Context) (string, error) {
			happened = append(happened, name)
			r.onFailure(name, func(ctx context.Context) error {
				happened = append(happened, "undo "+name)
				return ctx.Err() // the undo must not be interrupted
			})
			if err != nil {
				cancel()
			}
			return "", err
		}}
	}
	err := r.steps(ctx, []step{change("a", nil), change("b", broken), change("c", nil)})
	if !errors.Is(err, broken) || errors.Is(err, context.Canceled) {
		t.Errorf("the run ended with %v", err)
	}
	if want := []string{"a", "b", "undo b", "undo a"}; !slices.Equal(happened, want) {
		t.Errorf("happened: %v, want %v", happened, want)
	}
	var reported []string
	for _, s := range r.done {
		reported = append(reported, s.Name)
	}
	if want := []string{"a", "b", "undo: b", "undo: a"}; !slices.Equal(reported, want) || r.done[1].Error != "broken" {
		t.Errorf("reported: %+v", r.done)
	}
}

func TestNothingIsTakenBackAfterTheCommit(t *testing.T) {
	broken := errors.New("broken")
	r := &run{}
	err := r.steps(t.Context(), []step{
		{"swap", func(context.Context) (string, error) {
			r.onFailure("swap", func(context.Context) error { t.Error("the swap was undone"); return nil })
			r.commit()
			return "", nil
		}},
		{"verify", func(context.Context) (string, error) { return "", broken }},
	})
	if !errors.Is(err, broken) {
		t.Errorf("the run ended with %v", err)
	}
}

// An undo that fails is reported and does not prevent the others.
func TestAFailedUndoIsReported(t *testing.T) {
	broken, stuck := errors.New("broken"), errors.New("stuck")
	r := &run{}
	resumed := false
	err := r.steps(t.Context(), []step{{"all", func(context.Context) (string, error) {
		r.onFailure("first", func(context.Context) error { resumed = true; return nil })
		r.onFailure("second", func(context.Context) error { return stuck })
		return "", broken
	}}})
	if !errors.Is(err, broken) || !errors.Is(err, stuck) || !resumed {
		t.Errorf("the run ended with %v; the other undo ran: %v", err, resumed)
	}
}
