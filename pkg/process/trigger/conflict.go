package trigger

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// QuietConflicts returns a reconciler that retries without an error when a write was based on an outdated object, with the delays of
// Retries. Another program has written the object meanwhile, so that an error in the log would report nothing wrong.
func QuietConflicts(r reconcile.Reconciler) reconcile.Reconciler {
	retries := Retries() // RequeueAfter resets the rate limiter of the queue
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, request)
		if onlyConflicts(err) {
			return reconcile.Result{RequeueAfter: retries.When(request)}, nil
		}
		retries.Forget(request)
		return result, err
	})
}

// onlyConflicts reports whether err is a conflict, or wraps or joins only conflicts.
func onlyConflicts(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !onlyConflicts(e) })
	}
	if wrapped, ok := err.(interface{ Unwrap() error }); ok {
		return onlyConflicts(wrapped.Unwrap())
	}
	return apierrors.IsConflict(err)
}
