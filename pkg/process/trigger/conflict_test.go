package trigger

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A conflict is retried soon and is no error. An error beside it is an error.
func TestConflictsAreQuiet(t *testing.T) {
	conflict := fmt.Errorf("status: %w", apierrors.NewConflict(schema.GroupResource{Resource: "nodenetworks"}, "n1", errors.New("changed")))
	other := errors.New("no route to host")
	for name, c := range map[string]struct {
		err   error
		quiet bool
	}{
		"success": {}, "a conflict": {conflict, true}, "two conflicts": {errors.Join(conflict, nil, conflict), true},
		"wrapped conflicts":                     {fmt.Errorf("node n1: %w", errors.Join(conflict, conflict)), true},
		"a conflict and another error, wrapped": {err: fmt.Errorf("node n1: %w", errors.Join(conflict, other))},
		"another error":                         {err: other}, "a conflict and another error": {err: errors.Join(conflict, other)},
	} {
		own := reconcile.Result{RequeueAfter: time.Hour}
		result, err := QuietConflicts(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return own, c.err
		})).Reconcile(t.Context(), reconcile.Request{})
		if c.quiet && (err != nil || result.RequeueAfter != FirstRetry) || !c.quiet && (!errors.Is(err, c.err) || result != own) {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
}

// Conflict after conflict, the delay doubles. A reconciliation without one resets it.
func TestConflictsBackOff(t *testing.T) {
	conflict := error(apierrors.NewConflict(schema.GroupResource{Resource: "nodenetworks"}, "n1", errors.New("changed")))
	var err error
	quiet := QuietConflicts(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, err
	}))
	for i, c := range []struct {
		err  error
		want time.Duration
	}{{conflict, FirstRetry}, {conflict, 2 * FirstRetry}, {conflict, 4 * FirstRetry}, {nil, 0}, {conflict, FirstRetry}} {
		err = c.err
		if result, err := quiet.Reconcile(t.Context(), reconcile.Request{}); err != nil || result.RequeueAfter != c.want {
			t.Errorf("reconciliation %d: %+v, %v; want a retry after %s", i, result, err, c.want)
		}
	}
}
