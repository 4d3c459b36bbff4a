package policy

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Sets reconciles the port groups of selectors, or their address sets: its request is the hash of a selector.
type Sets struct {
	Database  Database
	Selectors *Selectors
	Trigger   *trigger.Trigger
	// Kind is KindPodGroup or KindPodSet, and Unit what is there while it is used.
	Kind string
	Unit func(unit.Key) unit.Unit
	// Load tells the selectors of all policies.
	Load func(context.Context) error
}

// Groups reconciles port groups.
func Groups(of *Reconciler, t *trigger.Trigger) *Sets {
	return &Sets{Database: of.Database, Selectors: of.Selectors, Trigger: t, Kind: topology.KindPodGroup, Unit: topology.PodGroupUnit, Load: of.Load}
}

// Addresses reconciles address sets.
func Addresses(of *Reconciler, t *trigger.Trigger) *Sets {
	return &Sets{Database: of.Database, Selectors: of.Selectors, Trigger: t, Kind: topology.KindPodSet, Unit: topology.PodSetUnit, Load: of.Load}
}

// Reconcile implements reconcile.Reconciler.
func (r *Sets) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	key := unit.NewKey(r.Kind, req.Name)
	switch r.Selectors.state(key) {
	case unused:
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: key}))
	case waiting:
		return ctrl.Result{}, nil // the last of its pods asks again
	}
	err := ovndb.IgnorePending(r.Database.Apply(ctx, r.Unit(key)))
	if err == nil {
		r.Selectors.made(key)
	}
	return ctrl.Result{}, err
}
