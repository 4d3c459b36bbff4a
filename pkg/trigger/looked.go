package trigger

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Looked returns a reconciler that tells of each object that it has looked at, whatever came of it; nil is told nothing.
func Looked(r reconcile.Reconciler, looked func(types.NamespacedName)) reconcile.Reconciler {
	if looked == nil {
		return r
	}
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		defer looked(req.NamespacedName)
		return r.Reconcile(ctx, req)
	})
}
