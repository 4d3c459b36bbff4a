// Package plan computes the rows of the northbound database for the case that some objects were applied or deleted.
// It runs the operator's reconcilers on a copy of the world: objects are written to an overlay of the cache, units
// are only recorded, and a copy of the allocator assigns addresses. The events of the overlay go through the
// reconcilers' own watches, so that a plan enqueues the same reconcilers as the cluster would.
package plan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/controllers/plan/overlay"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/process/admin"
	"github.com/weft-network/weft/pkg/unit"
)

// Planner makes plans. It is safe for concurrent use.
type Planner struct {
	// Env is the operator's Env, and Kinds are the kinds built from it.
	Env   *kind.Env
	Kinds []*kind.Kind
	// Make builds the kinds of an Env. Units of later kinds build on units of earlier ones.
	Make func(*kind.Env) []*kind.Kind
}

// Plan is the result of a change of objects.
type Plan struct {
	// Units are the units that reconcilers applied, by key.
	Units map[unit.Key]unit.Unit
	// Unknown has the rows whose UUIDs are derived from the UIDs of pods that do not exist yet: UUID -> name.
	Unknown map[string]string
	// Notes explain what rows do not show: pods without a port, with the reason, and warnings that reconcilers would
	// record.
	Notes []string
}

// errNotRestored means that the first pass over the pods has not ended yet.
var errNotRestored = errors.New("the addresses in use are not restored yet")

// Plan runs the reconcilers on the objects of a request until none has work. The error is an admin.ErrUnavailable
// until the addresses in use are restored, and an admin.ErrInvalid for an invalid object.
func (p *Planner) Plan(ctx context.Context, request admin.PlanRequest) (*Plan, error) {
	s := p.simulate()
	if !s.env.Addresses.Known() {
		return nil, fmt.Errorf("%w: %w", admin.ErrUnavailable, errNotRestored)
	}
	if err := s.lay(ctx, request); err != nil {
		return nil, err
	}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	if err := s.explain(ctx, p.Env.Client); err != nil {
		return nil, err
	}
	unpredictable, err := s.unpredictableRows(ctx)
	return &Plan{Units: s.database.units, Unknown: unpredictable, Notes: s.notes.texts}, err
}

// simulation is one run of the reconcilers on a copy of the world.
type simulation struct {
	env      *kind.Env
	kinds    []*kind.Kind
	objects  *overlay.Client
	database *recorder
	notes    *notes

	queues  map[string]*queue
	seen    map[request]bool
	changed []change                      // written objects that were not delivered yet
	laid    map[types.NamespacedName]bool // objects of the request
}

// request names an object to reconcile.
type request struct {
	kind string
	name types.NamespacedName
}

// change is a write to the overlay. before is nil for a new object, after is nil for a deleted one.
type change struct{ before, after client.Object }

// simulate copies the current state.
func (p *Planner) simulate() *simulation {
	s := &simulation{database: newRecorder(), notes: &notes{}, queues: map[string]*queue{}, seen: map[request]bool{},
		laid: map[types.NamespacedName]bool{}}
	s.objects = overlay.New(p.Env.Client, func(before, after client.Object) { s.changed = append(s.changed, change{before, after}) })
	s.env = p.Env.Fork(s.objects, s.database, s.notes, p.Kinds)
	s.env.Addresses, s.env.NetworkAddresses = alloc.New(time.Now), alloc.NewSet(time.Now)
	for _, k := range p.Make(s.env) {
		if k.SkipInPlan {
			continue
		}
		s.kinds = append(s.kinds, k)
		s.queues[k.Name] = newQueue(func(name types.NamespacedName) { s.seen[request{k.Name, name}] = true })
		for _, index := range k.Indexes {
			s.objects.Index(index.Field, index.Values)
		}
	}
	// After the state of the pods' reconciler, because the copy must have every address in that state.
	p.Env.Addresses.CopyTo(s.env.Addresses)
	p.Env.NetworkAddresses.CopyTo(s.env.NetworkAddresses)
	s.database.before, s.database.unit, s.database.has = p.Env.Database.RowsOf, p.Env.Database.Unit, p.Env.Database.Has
	return s
}

// run reconciles until no reconciler has work.
func (s *simulation) run(ctx context.Context) error {
	for runs := 0; ; runs++ {
		s.deliver(ctx)
		k, next, ok := s.next()
		if !ok {
			return nil
		}
		const enough = 100 // reconciliations of one object; a few are usual
		if runs > enough*len(s.seen) {
			return fmt.Errorf("the plan does not terminate: %s %s is reconciled again and again", next.kind, next.name)
		}
		if _, err := k.Reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: next.name}); err != nil {
			return fmt.Errorf("plan of %s %s: %w", next.kind, next.name, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// next takes a request from the first kind that has one.
func (s *simulation) next() (*kind.Kind, request, bool) {
	for _, k := range s.kinds {
		if name, ok := s.queues[k.Name].take(); ok {
			return k, request{k.Name, name}, true
		}
	}
	return nil, request{}, false
}

// deliver passes written objects to the watches, and collects what reconcilers enqueued for each other.
func (s *simulation) deliver(ctx context.Context) {
	changed := s.changed
	s.changed = nil
	for _, c := range changed {
		for _, k := range s.kinds {
			for _, w := range k.Watches {
				c.deliver(ctx, w, s.queues[k.Name])
			}
		}
	}
	for _, k := range s.kinds {
		for _, r := range s.env.Triggers.Of(k.Name).Take() {
			s.queues[k.Name].Add(r)
		}
	}
}
