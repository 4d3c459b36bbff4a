package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/controllers/overlay"
	"github.com/weft-network/weft/pkg/admin"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// syncTimeout is how long a question waits for the caches.
const syncTimeout = 5 * time.Second

// administration answers the administrator's questions in the process that leads.
type administration struct {
	origin
	database *database
	elected  <-chan struct{}
	synced   func(context.Context) bool // waits for the caches
}

// administer lets the manager answer on a socket; empty: nowhere.
func administer(mgr ctrl.Manager, socket string, db *database, from origin) error {
	if socket == "" {
		return nil
	}
	a := &administration{origin: from, database: db, elected: mgr.Elected(), synced: mgr.GetCache().WaitForCacheSync}
	return mgr.Add(admin.NewServer(socket, a, ctrl.Log.WithName("admin")))
}

// ready says why there is no answer now.
func (a *administration) ready(ctx context.Context) error {
	select {
	case <-a.elected:
	default:
		return fmt.Errorf("%w: this operator does not lead", admin.ErrUnavailable)
	}
	if err := a.database.Refused(); err != nil {
		return fmt.Errorf("%w: %w", admin.ErrUnavailable, err)
	}
	if !a.database.Connected() {
		err := fmt.Errorf("%w: the OVN northbound database is not connected", admin.ErrUnavailable)
		if why := a.database.Failure(); why != nil {
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
func (a *administration) Plan(ctx context.Context, question admin.PlanRequest) (admin.Changes, error) {
	if err := a.ready(ctx); err != nil {
		return admin.Changes{}, err
	}
	s, ok := newSimulation(a.origin)
	if !ok {
		return admin.Changes{}, fmt.Errorf("%w: the addresses in use are not known yet", admin.ErrUnavailable)
	}
	if err := s.lay(ctx, question); err != nil {
		return admin.Changes{}, err
	}
	if err := s.run(ctx); err != nil {
		return admin.Changes{}, err
	}
	if err := s.explain(ctx, a.objects); err != nil {
		return admin.Changes{}, err
	}
	units := make([]unit.Unit, 0, len(s.database.units))
	for _, key := range slices.Sorted(maps.Keys(s.database.units)) {
		units = append(units, s.database.units[key])
	}
	changes, err := a.database.Plan(units)
	if err != nil {
		return admin.Changes{}, fmt.Errorf("plan: %w", err)
	}
	unknown, err := s.unknownRows(ctx)
	return admin.Changes{
		Changes: withoutUnknown(withoutImplied(changes), unknown), Notes: append(s.notes.texts, a.collisions(changes)...),
	}, err
}

// Drift implements admin.Operator.
func (a *administration) Drift(ctx context.Context) (admin.Changes, error) {
	if err := a.ready(ctx); err != nil {
		return admin.Changes{}, err
	}
	changes, err := a.database.Drift(ctx)
	return admin.Changes{Changes: changes}, err
}

// withoutImplied leaves out the elements of rows that go as a whole.
func withoutImplied(changes []ovndb.Change) []ovndb.Change {
	gone := map[string]bool{}
	for _, c := range changes {
		if c.Op == ovndb.OpDelete {
			gone[c.UUID] = true
		}
	}
	return slices.DeleteFunc(changes, func(c ovndb.Change) bool { return c.Op == ovndb.OpRemove && gone[c.UUID] })
}

// unknownRows are the rows whose UUIDs are made from the UIDs of pods that do not exist yet, with their names.
func (s *simulation) unknownRows(ctx context.Context) (map[string]string, error) {
	unknown := map[string]string{}
	for key, u := range s.database.units {
		if key.Kind() != topology.KindPod || u.Empty() {
			continue
		}
		pod, err := s.pod(ctx, trigger.NameOf(key))
		if err != nil {
			return nil, err
		}
		if pod.UID != overlay.UnknownUID {
			continue
		}
		for _, row := range u.Rows {
			switch row := row.Model.(type) {
			case *nbdb.LogicalSwitchPort:
				unknown[row.UUID] = row.Name
			case *nbdb.QoS:
				unknown[row.UUID] = row.Match
			}
		}
	}
	return unknown, nil
}

// withoutUnknown shows rows with a UUID that nobody can know by their names.
func withoutUnknown(changes []ovndb.Change, unknown map[string]string) []ovndb.Change {
	for i := range changes {
		if _, ok := unknown[changes[i].UUID]; ok {
			changes[i].UUID = string(overlay.UnknownUID)
		}
		for j, column := range changes[i].Columns {
			if name, ok := unknown[column.Want]; ok {
				changes[i].Columns[j].Want = name
			}
		}
	}
	return changes
}
