// Package controllers lists the operator's reconcilers and connects them with the engine.
//
//	Kubernetes caches ──read──▶ facts ──pure──▶ unit.Unit ──diff──▶ ovndb.Plan ──1 txn──▶ OVN NB ──▶ status
//	  (controllers/*)         (structs)      (pkg/topology)         (pkg/ovndb)                 (controllers/*)
package controllers

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/addressprobe"
	"github.com/weft-network/weft/controllers/annotation"
	"github.com/weft-network/weft/controllers/bgp"
	"github.com/weft-network/weft/controllers/clusternetwork"
	"github.com/weft-network/weft/controllers/database"
	"github.com/weft-network/weft/controllers/egressfirewall"
	"github.com/weft-network/weft/controllers/egressip"
	"github.com/weft-network/weft/controllers/externalroute"
	"github.com/weft-network/weft/controllers/floatinggate"
	"github.com/weft-network/weft/controllers/floatingip"
	"github.com/weft-network/weft/controllers/gateway"
	"github.com/weft-network/weft/controllers/inspect"
	"github.com/weft-network/weft/controllers/invariantcheck"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/controllers/loadbalancerpool"
	"github.com/weft-network/weft/controllers/network"
	"github.com/weft-network/weft/controllers/networkport"
	"github.com/weft-network/weft/controllers/node"
	"github.com/weft-network/weft/controllers/plan"
	"github.com/weft-network/weft/controllers/pod"
	"github.com/weft-network/weft/controllers/policy"
	"github.com/weft-network/weft/controllers/service"
	"github.com/weft-network/weft/controllers/sweep"
	"github.com/weft-network/weft/controllers/transit"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// packages lists the reconcilers. Units of later kinds build on units of earlier ones. A new kind is one folder and
// one line here.
var packages = []func(*kind.Env) []*kind.Kind{
	clusternetwork.Kinds,
	node.Kinds,
	gateway.Kinds,
	transit.Kinds,
	defaultZoneOnly(floatingip.Kinds),
	defaultZoneOnly(floatinggate.Kinds),
	pod.Kinds,
	defaultZoneOnly(network.Kinds),
	defaultZoneOnly(networkport.Kinds),
	service.Kinds,
	loadbalancerpool.Kinds,
	defaultZoneOnly(bgp.Kinds),
	defaultZoneOnly(addressprobe.Kinds),
	egressip.Kinds,
	defaultZoneOnly(externalroute.Kinds),
	egressfirewall.Kinds,
	policy.Kinds,
	defaultZoneOnly(annotation.Kinds),
}

// defaultZoneOnly marks kinds that have no units, or only in the default zone. A zone's operator only reads their objects.
func defaultZoneOnly(kinds func(*kind.Env) []*kind.Kind) func(*kind.Env) []*kind.Kind {
	return func(env *kind.Env) []*kind.Kind {
		all := kinds(env)
		for _, k := range all {
			k.DefaultZoneOnly = true
		}
		return all
	}
}

func kindsOf(env *kind.Env) (all []*kind.Kind) {
	for _, of := range packages {
		all = append(all, of(env)...)
	}
	return all
}

// divide returns the kinds that an operator reconciles, and the kinds that it only reads.
func divide(zone kind.Zone, all []*kind.Kind) (own, followed []*kind.Kind) {
	for _, k := range all {
		if zone.Follows() && k.DefaultZoneOnly {
			followed = append(followed, k)
		} else {
			own = append(own, k)
		}
	}
	return own, followed
}

// index adds the indexes of kinds that are only read. Nothing is reconciled for them.
func index(mgr ctrl.Manager, triggers *trigger.Set, kinds []*kind.Kind) error {
	for _, k := range kinds {
		triggers.Of(k.Name).Ignore()
		if err := k.AddIndexes(mgr); err != nil {
			return err
		}
	}
	return nil
}

// theNetwork is the name of the only ClusterNetwork.
var theNetwork = types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}

// Setup creates the engine and registers every reconciler with the manager.
func Setup(mgr ctrl.Manager, options Options) (*ovndb.Engine, error) {
	env := newEnv(mgr, options)
	db := newDatabase(mgr, options, env)
	observers := observe(env, db, options)
	kinds, followed := divide(options.Zone, kindsOf(env))
	if err := index(mgr, env.Triggers, followed); err != nil {
		return nil, err
	}
	kinds = append(kinds, sweep.Kind(env, kinds))
	first := database.NewFirstPass(func() {
		db.Complete()
		env.Selectors.Begin()
		if options.Reconciled != nil {
			options.Reconciled()
		}
	})
	for _, k := range kinds {
		if err := k.Register(mgr, env.Triggers, first.Reconciled(k.Name)); err != nil {
			return nil, err
		}
	}
	restore := func(ctx context.Context) error { return start(ctx, env, db, first, kinds) }
	inspector := &inspect.Inspector{Planner: &plan.Planner{Env: env, Kinds: kinds, Make: kindsOf}, Database: db, World: worldOf(env, db),
		Kinds: kinds}
	errs := []error{inspector.SetupWithManager(mgr, options.AdminSocket)}
	if options.Workloads != nil && options.Namespace != "" && !options.Zone.Follows() {
		observers = append(observers, observeWorkloads(mgr, options.Namespace, options.Workloads))
	}
	for _, run := range append(observers, db.Run, restore) {
		errs = append(errs, mgr.Add(&leaderRunnable{run}))
	}
	return db.Engine, errors.Join(errs...)
}

// start restores the addresses in use, and then begins the first pass. Units are applied once the addresses of the
// cluster network are restored, or after database.StartLimit. The attachments of Networks are restored even if no pod
// requests a Network: the previous leader may have removed the last port without writing the count.
func start(ctx context.Context, env *kind.Env, db *database.Database, first *database.FirstPass, kinds []*kind.Kind) error {
	defer db.BeginAfter(database.StartLimit)()
	restored := env.Restore(ctx)
	db.Begin()
	err := errors.Join(restored, first.Begin(ctx, env.Client, kinds, env.Triggers), env.RestoreNetworks(ctx))
	if ctx.Err() != nil {
		return nil
	}
	env.Triggers.Enqueue(topology.KindNetwork, theNetwork) // the addresses in use are restored now
	env.Triggers.Enqueue(sweep.Name, theNetwork)
	return err
}

// worldOf returns a reader of the invariants' facts.
func worldOf(env *kind.Env, db *database.Database) *invariantcheck.Reader {
	return &invariantcheck.Reader{Client: env.Client, Zone: env.Zone, Database: db,
		ClusterPolicies: env.ClusterPolicies, MultiNetworkPolicies: func(ctx context.Context) ([]invariant.MultiNetworkPolicy, error) {
			return policy.MultiNetworkPolicies(ctx, env.Client, env.Served)
		}}
}

// leaderRunnable runs only in the process that holds the lease.
type leaderRunnable struct{ run func(context.Context) error }

var _ manager.LeaderElectionRunnable = &leaderRunnable{}

// Start implements manager.Runnable.
func (l *leaderRunnable) Start(ctx context.Context) error { return l.run(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (l *leaderRunnable) NeedLeaderElection() bool { return true }
