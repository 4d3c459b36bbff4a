package policy

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/selection"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Sets reconciles the port groups of selectors, or their address sets, if they have waited for a pod or their change
// was not applied at once. Its request is the hash of a selector.
type Sets struct {
	Database  Database
	Selectors *selection.Selectors
	Kind      string // KindPodGroup or KindPodSet
}

// Reconcile implements reconcile.Reconciler.
func (r *Sets) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Selectors.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	key := unit.NewKey(r.Kind, req.Name)
	switch r.Selectors.State(key) {
	case selection.Unused:
		r.Selectors.End(key) // unless a policy has begun to use it
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Retry(ctx, key))
	case selection.Waiting:
		return ctrl.Result{}, nil // the last of its pods enqueues it again
	}
	if user := r.Selectors.User(key); user != "" { // why the rows exist, which the hash does not say
		ctx = ovndb.WithCause(ctx, ovndb.Cause{Object: user, Reconciler: user.Kind()})
	}
	err := ovndb.IgnorePending(r.Database.Apply(ctx, topology.SelectorUnit(key)))
	if err == nil {
		r.Selectors.Complete([]unit.Key{key}, "")
	}
	return ctrl.Result{}, err
}
