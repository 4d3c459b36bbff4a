// Package inspect handles the requests of an administrator to the leading operator, through its admin socket: what a
// change would do, what differs from the desired state, which invariants do not hold, and what changed.
package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/controllers/database"
	"github.com/weft-network/weft/controllers/invariantcheck"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/controllers/plan"
	"github.com/weft-network/weft/controllers/plan/overlay"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/admin"
	"github.com/weft-network/weft/pkg/unit"
)

// syncTimeout is how long a request waits for the caches.
const syncTimeout = 5 * time.Second

// Inspector handles the requests of the admin socket in the process that leads: plan, drift, check, history.
type Inspector struct {
	Planner  *plan.Planner
	Database *database.Database
	// World reads the input of the invariants.
	World *invariantcheck.Reader
	// Kinds has the kinds of objects with units.
	Kinds []*kind.Kind

	elected <-chan struct{}
	synced  func(context.Context) bool // waits for the caches
}

// SetupWithManager serves the socket while the manager runs. An empty path serves nothing.
func (a *Inspector) SetupWithManager(mgr ctrl.Manager, socket string) error {
	if socket == "" {
		return nil
	}
	a.elected, a.synced = mgr.Elected(), mgr.GetCache().WaitForCacheSync
	return mgr.Add(admin.NewServer(socket, a, ctrl.Log.WithName("admin")))
}

// leads returns an error if this process does not lead.
func (a *Inspector) leads() error {
	select {
	case <-a.elected:
		return nil
	default:
		return fmt.Errorf("%w: this operator does not lead", admin.ErrUnavailable)
	}
}

// ready returns an error if this process cannot respond now.
func (a *Inspector) ready(ctx context.Context) error {
	if err := a.leads(); err != nil {
		return err
	}
	if err := a.Database.Refused(); err != nil {
		return fmt.Errorf("%w: %w", admin.ErrUnavailable, err)
	}
	if !a.Database.Connected() {
		err := fmt.Errorf("%w: the OVN northbound database is not connected", admin.ErrUnavailable)
		if why := a.Database.Failure(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !a.synced(ctx) {
		return fmt.Errorf("%w: the Kubernetes caches are not in sync", admin.ErrUnavailable)
	}
	return nil
}

// Plan implements admin.Operator.
func (a *Inspector) Plan(ctx context.Context, question admin.PlanRequest) (admin.Changes, error) {
	planned, units, err := a.plan(ctx, question)
	if err != nil {
		return admin.Changes{}, err
	}
	changes, err := a.Database.Plan(units)
	if err != nil {
		return admin.Changes{}, fmt.Errorf("plan: %w", err)
	}
	return admin.Changes{
		Changes: withoutUnpredictable(withoutImplied(changes), planned.Unknown), Notes: append(planned.Notes, a.collisions(changes)...),
	}, nil
}

// Operations implements admin.Operator.
func (a *Inspector) Operations(ctx context.Context, question admin.PlanRequest) (admin.Operations, error) {
	planned, units, err := a.plan(ctx, question)
	if err != nil {
		return admin.Operations{}, err
	}
	operations, err := a.Database.Operations(units)
	if err != nil {
		return admin.Operations{}, fmt.Errorf("plan: %w", err)
	}
	return admin.Operations{Operations: operations, Notes: planned.Notes}, nil
}

// plan returns the result of a planner, and its units sorted by key.
func (a *Inspector) plan(ctx context.Context, question admin.PlanRequest) (*plan.Plan, []unit.Unit, error) {
	if err := a.ready(ctx); err != nil {
		return nil, nil, err
	}
	planned, err := a.Planner.Plan(ctx, question)
	if err != nil {
		return nil, nil, err
	}
	units := make([]unit.Unit, 0, len(planned.Units))
	for _, key := range slices.Sorted(maps.Keys(planned.Units)) {
		units = append(units, planned.Units[key])
	}
	return planned, units, nil
}

// Drift implements admin.Operator.
func (a *Inspector) Drift(ctx context.Context) (admin.Changes, error) {
	if err := a.ready(ctx); err != nil {
		return admin.Changes{}, err
	}
	changes, err := a.Database.Drift(ctx)
	return admin.Changes{Changes: changes}, err
}

// withoutImplied removes changes of elements whose rows are deleted as a whole.
func withoutImplied(changes []ovndb.Change) []ovndb.Change {
	gone := map[string]bool{}
	for _, c := range changes {
		if c.Op == ovndb.OpDelete {
			gone[c.UUID] = true
		}
	}
	return slices.DeleteFunc(changes, func(c ovndb.Change) bool { return c.Op == ovndb.OpRemove && gone[c.UUID] })
}

// withoutUnpredictable replaces UUIDs that cannot be predicted with the names of their rows.
func withoutUnpredictable(changes []ovndb.Change, unpredictable map[string]string) []ovndb.Change {
	for i := range changes {
		if _, ok := unpredictable[changes[i].UUID]; ok {
			changes[i].UUID = string(overlay.UnknownUID)
		}
		for j, column := range changes[i].Columns {
			if name, ok := unpredictable[column.Want]; ok {
				changes[i].Columns[j].Want = name
			}
		}
	}
	return changes
}
