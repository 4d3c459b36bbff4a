package policy

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/selection"
	"github.com/weft-network/weft/pkg/unit"
)

// Sets reconciles the port groups of selectors, or their address sets. Its request is the hash of a selector.
type Sets struct {
	Database  Database
	Selectors *selection.Selectors
	// Kind is KindPodGroup or KindPodSet. Unit builds the unit of a group or set that is in use.
	Kind string
	Unit func(unit.Key) unit.Unit
}

// Reconcile implements reconcile.Reconciler.
func (r *Sets) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Selectors.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	key := unit.NewKey(r.Kind, req.Name)
	switch r.Selectors.State(key) {
	case selection.Unused:
		if !r.Selectors.Leave(key) { // a policy has begun to use it, and has enqueued it again
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: key}))
	case selection.Waiting:
		return ctrl.Result{}, nil // the last of its pods enqueues it again
	}
	err := ovndb.IgnorePending(r.Database.Apply(ctx, r.Unit(key)))
	if err == nil {
		r.Selectors.Complete(key)
	}
	return ctrl.Result{}, err
}
