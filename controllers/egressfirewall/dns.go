package egressfirewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// DNSDatabase is what the reconciler of names needs of the engine.
type DNSDatabase interface {
	Database
	// Elements reads a set from the database.
	Elements(ctx context.Context, table, uuid, column string) ([]string, error)
}

// Resolver asks name servers and remembers.
type Resolver interface {
	Names
	Remembers(name string) bool
	Seed(name string, addresses []netip.Addr)
	Forget(name string)
	// Resolve asks if it is time to, and returns after how long to come back.
	Resolve(ctx context.Context, name string) (again time.Duration)
}

// DNS reconciles the sets of DNS names' addresses: its request is the name. It comes again when an answer has had its time.
type DNS struct {
	Client   client.Client
	Database DNSDatabase
	Resolver Resolver
	Trigger  *trigger.Trigger
	// Firewalls asks for firewalls.
	Firewalls *trigger.Trigger
}

// Reconcile implements reconcile.Reconciler.
func (r *DNS) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	key := topology.DNSKey(req.Name)
	firewalls, err := users(ctx, r.Client, string(key))
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(firewalls) == 0 {
		r.Resolver.Forget(req.Name)
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: key}))
	}
	if err := r.recall(ctx, key); err != nil {
		return ctrl.Result{}, err
	}
	if !r.Database.Wanted(key) { // nobody's rules wait for name servers
		if err := errors.Join(r.apply(ctx, key), askUsers(ctx, r.Client, key, r.Firewalls)); err != nil {
			return ctrl.Result{}, err
		}
	}
	before := r.said(req.Name)
	again := r.Resolver.Resolve(ctx, req.Name)
	if r.said(req.Name) != before {
		if err := askUsers(ctx, r.Client, key, r.Firewalls); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.apply(ctx, key); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// recall takes what the process before knew from the database: name servers may not answer this one.
func (r *DNS) recall(ctx context.Context, key unit.Key) error {
	if r.Resolver.Remembers(key.Name()) {
		return nil
	}
	var known []netip.Addr
	for _, row := range topology.AddressSetRows(key) {
		texts, err := r.Database.Elements(ctx, nbdb.AddressSetTable, row, "addresses")
		if err != nil {
			return fmt.Errorf("recall the addresses of %s: %w", key.Name(), err)
		}
		for _, text := range texts {
			if address, err := netip.ParseAddr(text); err == nil { // somebody else's idea of an address
				known = append(known, address)
			}
		}
	}
	r.Resolver.Seed(key.Name(), known)
	return nil
}

func (r *DNS) apply(ctx context.Context, key unit.Key) error {
	addresses, _, _ := r.Resolver.Known(key.Name())
	return ovndb.IgnorePending(r.Database.Apply(ctx, topology.AddressSetUnit(key, addresses)))
}

// said is what firewalls tell of a name.
func (r *DNS) said(name string) string {
	_, asked, err := r.Resolver.Known(name)
	return fmt.Sprint(asked, err)
}

// Frozen is a resolver that asks nobody and forgets nothing, for plans.
type Frozen struct{ Names }

// Remembers implements Resolver.
func (Frozen) Remembers(string) bool { return true }

// Seed implements Resolver.
func (Frozen) Seed(string, []netip.Addr) {}

// Forget implements Resolver.
func (Frozen) Forget(string) {}

// Resolve implements Resolver.
func (Frozen) Resolve(context.Context, string) time.Duration { return 0 }
