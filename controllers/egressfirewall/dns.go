package egressfirewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// DNSDatabase is the part of the engine that the reconciler of names uses.
type DNSDatabase interface {
	Database
	// Elements reads a set from the database.
	Elements(ctx context.Context, table, uuid, column string) ([]string, error)
}

// Resolver queries name servers and stores their answers.
type Resolver interface {
	Names
	Remembers(name string) bool
	Seed(name string, addresses []netip.Addr)
	Forget(name string)
	// Observe sets the addresses of a name with a wildcard, which agents observe. err says why they cannot.
	Observe(name string, addresses []netip.Addr, err error)
	// Resolve queries a name if a query is due, and returns the time until the next query.
	Resolve(ctx context.Context, name string) (again time.Duration)
}

// DNS reconciles the address sets of DNS names. Its request is the name. It requeues a name for the next query.
type DNS struct {
	Client   client.Client
	Database DNSDatabase
	Resolver Resolver
	Triggers *trigger.Set
	// Policies records the policies that name sets, once Load has returned.
	Policies *kind.SetUsers
	Load     func(ctx context.Context) error
	// WildcardsChanged publishes that Wildcards returns another list.
	WildcardsChanged *kind.Topic[struct{}]

	wildcards wildcards
}

// Reconcile implements reconcile.Reconciler.
func (r *DNS) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	key := topology.DNSKey(req.Name)
	firewalls, err := users(ctx, r.Client, string(key))
	if err != nil {
		return ctrl.Result{}, err
	}
	used := len(firewalls)+len(r.Policies.Of(key)) > 0
	if facts.IsWildcard(req.Name) {
		if err := r.note(ctx, req.Name, used); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !used {
		r.Resolver.Forget(req.Name)
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: key}))
	}
	if facts.IsWildcard(req.Name) {
		return ctrl.Result{}, r.observe(ctx, key)
	}
	if err := r.recall(ctx, key); err != nil {
		return ctrl.Result{}, err
	}
	if !r.Database.Wanted(key) { // so that rules do not wait for name servers
		if err := errors.Join(r.apply(ctx, key), r.enqueueUsers(ctx, key)); err != nil {
			return ctrl.Result{}, err
		}
	}
	before := r.stateOf(req.Name)
	again := r.Resolver.Resolve(ctx, req.Name)
	if r.stateOf(req.Name) != before {
		if err := r.enqueueUsers(ctx, key); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.apply(ctx, key); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// enqueueUsers enqueues the firewalls and the policies that name a set.
func (r *DNS) enqueueUsers(ctx context.Context, set unit.Key) error {
	for _, policy := range r.Policies.Of(set) {
		r.Triggers.EnqueueUnit(policy)
	}
	return enqueueUsers(ctx, r.Client, set, r.Triggers)
}

// recall seeds the resolver with the addresses in the database, because name servers may not respond to this process.
func (r *DNS) recall(ctx context.Context, key unit.Key) error {
	if r.Resolver.Remembers(key.Name()) {
		return nil
	}
	var addresses []netip.Addr
	for _, row := range topology.AddressSetRows(key) {
		texts, err := r.Database.Elements(ctx, nbdb.AddressSetTable, row, "addresses")
		if err != nil {
			return fmt.Errorf("recall the addresses of %s: %w", key.Name(), err)
		}
		for _, text := range texts {
			if address, err := netip.ParseAddr(text); err == nil { // another program may have written something else
				addresses = append(addresses, address)
			}
		}
	}
	r.Resolver.Seed(key.Name(), addresses)
	return nil
}

func (r *DNS) apply(ctx context.Context, key unit.Key) error {
	addresses, _, _ := r.Resolver.Known(key.Name())
	return ovndb.IgnorePending(r.Database.Apply(ctx, topology.AddressSetUnit(key, addresses)))
}

// stateOf returns the part of a name's state that firewalls report.
func (r *DNS) stateOf(name string) string {
	addresses, queried, err := r.Resolver.Known(name)
	return fmt.Sprint(queried, err, len(addresses) > 0)
}

// Frozen is a resolver for plans. It sends no queries and forgets nothing.
type Frozen struct{ Names }

// Remembers implements Resolver.
func (Frozen) Remembers(string) bool { return true }

// Seed implements Resolver.
func (Frozen) Seed(string, []netip.Addr) {}

// Forget implements Resolver.
func (Frozen) Forget(string) {}

// Observe implements Resolver.
func (Frozen) Observe(string, []netip.Addr, error) {}

// Resolve implements Resolver.
func (Frozen) Resolve(context.Context, string) time.Duration { return 0 }
