// Package controllers lists the operator's reconcilers and connects them with the engine.
//
//	Kubernetes caches ──read──▶ facts ──pure──▶ unit.Unit ──diff──▶ ovndb.Plan ──1 txn──▶ OVN NB ──▶ status
//	  (controllers/*)         (structs)      (pkg/topology)         (pkg/ovndb)                 (controllers/*)
package controllers

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/weft-network/weft/controllers/egressfirewall"
	"github.com/weft-network/weft/controllers/egressip"
	"github.com/weft-network/weft/controllers/gateway"
	"github.com/weft-network/weft/controllers/invariant"
	"github.com/weft-network/weft/controllers/network"
	"github.com/weft-network/weft/controllers/node"
	"github.com/weft-network/weft/controllers/pod"
	"github.com/weft-network/weft/controllers/policy"
	"github.com/weft-network/weft/controllers/service"
	"github.com/weft-network/weft/controllers/sweep"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/resolver"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// CountDelay is how long counts in ClusterNetwork's status may be behind: many pods become one write.
const CountDelay = 2 * time.Second

// strayDelay is how long a sweep for rows of unknown owners waits: many rows become one sweep.
const strayDelay = 500 * time.Millisecond

// Options are what the reconcilers need besides the manager.
type Options struct {
	// Northbound are the OVSDB remotes of the northbound database.
	Northbound []string
	// TLS is for those of them that are "ssl:".
	TLS      ovndb.TLS
	Observer ovndb.Observer
	// CountDelay is how long counts in ClusterNetwork's status may be behind.
	CountDelay time.Duration
	// Heartbeat is how often the leader proves that it sees the database, and BlindAfter how long it goes on without; 0 is ovndb's
	// default.
	Heartbeat, BlindAfter time.Duration
	// FirstConnection is how long ClusterNetwork's first status waits for the database; 0 is 5 s.
	FirstConnection time.Duration
	// Violations is told how often each invariant is violated, after each check; it may be nil.
	Violations func(invariant string, n int)
	// Reported is told of each status of the ClusterNetwork: states by area (0 OK to 3 unavailable), and nodes; it may be nil.
	Reported func(areas map[string]int, ready, total int)
	// Programmed is told how long a change of a service's endpoints took until the database had it; it may be nil.
	Programmed func(took time.Duration)
	// Propagated is told, after a change of a service's endpoints and at most once in PropagationInterval, how long it took from the database
	// until every chassis had it; nil: it is not measured, which costs a write per chassis.
	Propagated func(took time.Duration)
	// ResolvConf is the file that names the name servers for DNS names in policies; empty: /etc/resolv.conf.
	ResolvConf string
	// Lookup asks for a DNS name instead of those name servers.
	Lookup resolver.Lookup
	// Probe asks whether a node answers at an address; nil: every node counts as reachable. It is asked each ProbeInterval, of the nodes that may
	// carry egress IPs; one that missed ProbeMisses in a row is unreachable. 0 are the defaults.
	Probe         egressip.Probe
	ProbeInterval time.Duration
	ProbeMisses   int
	// Namespace is where the pods of agents are; empty: what kubelets say of them is not looked at. Version is the operator's own.
	Namespace, Version string
	// ReadOnly keeps the engine from writing, and Looked is called when all objects were looked at once; it may be nil.
	ReadOnly bool
	Looked   func()
	// AdminSocket is where the administrator's questions are answered; empty: nowhere.
	AdminSocket string
}

// Setup makes the engine and registers every reconciler with the manager.
func Setup(mgr ctrl.Manager, options Options) (*ovndb.Engine, error) {
	triggers := map[string]*trigger.Trigger{}
	for _, kind := range kinds {
		triggers[kind] = &trigger.Trigger{}
	}
	swept := &trigger.Trigger{}
	begun := make(chan struct{})
	db := &database{live: mgr.GetAPIReader(), told: func() { triggers[topology.KindNetwork].Enqueue(network.Name) }, begun: begun, begin: sync.OnceFunc(func() { close(begun) })}
	db.Engine = ovndb.NewEngine(ovndb.Config{
		Schema: northbound.Schema(), Endpoints: options.Northbound, TLS: options.TLS, Observer: options.Observer, Log: ctrl.Log.WithName("ovndb"),
		Admit: db.admit, Heartbeat: options.Heartbeat, BlindAfter: options.BlindAfter, ReadOnly: options.ReadOnly,
		OnConnect: func(up bool) {
			triggers[topology.KindNetwork].Enqueue(network.Name)
			if up {
				swept.Enqueue(network.Name)
				triggers[topology.KindEgressIP].Enqueue(egressip.All)
			}
		},
		OnDrift: func() { triggers[topology.KindNetwork].EnqueueAfter(network.Name, options.CountDelay) },
		OnStray: func() { swept.EnqueueAfter(network.Name, strayDelay) },
	}, func(key unit.Key, _ error) {
		if t := triggers[key.Kind()]; t != nil {
			t.Enqueue(trigger.NameOf(key))
		}
	})
	spread := newPropagation(db.Engine, options.Propagated, func() { triggers[topology.KindNetwork].Enqueue(network.Name) })
	addresses, answers := alloc.New(time.Now), resolver.New(options.lookup(), time.Now)
	recorder := mgr.GetEventRecorder("weft")
	selectors := policy.NewSelectors(triggers)
	first := &firstPass{done: func() {
		db.Complete()
		selectors.Begin()
		if options.Looked != nil {
			options.Looked()
		}
	}}
	policies := &policy.Reconciler{Client: mgr.GetClient(), Database: db, Selectors: selectors, Events: recorder, Trigger: triggers[topology.KindNetworkPolicy]}
	known := &policy.Known{}
	clusterPolicies := policies.AddClusters(known, triggers)
	counted := func() { triggers[topology.KindNetwork].EnqueueAfter(network.Name, options.CountDelay) }
	pods := &pod.Reconciler{Client: mgr.GetClient(), Database: db, Addresses: addresses, Events: recorder, Trigger: triggers[topology.KindPod], Selectors: selectors, Policies: policies.Load, Counted: counted, Looked: first.look(topology.KindPod)}
	watch := invariant.NewWatch(&invariant.Reader{Client: mgr.GetClient(), Database: db, ClusterPolicies: policies.ClusterPolicies}, options.Violations,
		func() { triggers[topology.KindNetwork].Enqueue(network.Name) })
	nodes := &node.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Database: db, Addresses: wakingAddresses{addresses, pods.Wake}, Events: recorder, Trigger: triggers[topology.KindNode], Looked: first.look(topology.KindNode),
		Removed: func(owners []string) { askFor(triggers[topology.KindPod], owners); counted() }, Vacated: triggers[topology.KindGateway].Enqueue}

	gateways := &gateway.Reconciler{Client: mgr.GetClient(), Database: db, Events: recorder, Trigger: triggers[topology.KindGateway], HasNone: nodes.HasNone, Looked: first.look(topology.KindGateway)}
	probes := egressip.NewProber(egressip.Carriers(mgr.GetClient()), options.Probe, options.ProbeInterval, options.ProbeMisses, func() { triggers[topology.KindEgressIP].Enqueue(egressip.All) })
	tunnels := egressip.NewProber(network.ManagementPorts(mgr.GetClient()), options.Probe, tunnelInterval, egressip.DefaultProbeMisses, func() { triggers[topology.KindNetwork].Enqueue(network.Name) })
	egress := &egressip.Reconciler{Client: mgr.GetClient(), Database: db, Events: recorder, Trigger: triggers[topology.KindEgressIP],
		Reachable: probes.Reachable, ServicesByAddress: service.ByAddress}

	for _, r := range []interface{ SetupWithManager(ctrl.Manager) error }{
		&network.Reconciler{Client: mgr.GetClient(), Database: db, Addresses: addresses, Events: recorder, Trigger: triggers[topology.KindNetwork],
			FirstConnection: options.FirstConnection, CountDelay: options.CountDelay, Violations: watch.Violations, Silent: spread.silent, Unreached: tunnels.Unreachable, Reported: options.Reported, Namespace: options.Namespace, Version: options.Version, Announce: true},
		nodes, pods,
		gateways,
		(&service.Reconciler{Client: mgr.GetClient(), Database: db, Events: recorder, Trigger: triggers[topology.KindService], Looked: first.look(topology.KindService)}).Measure(options.Programmed, spread.ask),
		&egressfirewall.Reconciler{Client: mgr.GetClient(), Database: db, Names: answers, Events: recorder, Trigger: triggers[topology.KindEgressFirewall], Sets: triggers},
		&egressfirewall.Nodes{Client: mgr.GetClient(), Database: db, Trigger: triggers[topology.KindNodes], Firewalls: triggers[topology.KindEgressFirewall]},
		&egressfirewall.DNS{Client: mgr.GetClient(), Database: db, Resolver: answers, Trigger: triggers[topology.KindDNS], Firewalls: triggers[topology.KindEgressFirewall]},
		egress,
		policies, clusterPolicies[0], clusterPolicies[1], clusterPolicies[2], &policy.Definitions{Live: mgr.GetAPIReader(), Cache: mgr.GetCache(), Clusters: clusterPolicies},
		policy.Groups(policies, triggers[topology.KindPodGroup]), policy.Addresses(policies, triggers[topology.KindPodSet]),
		&sweep.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Database: db, Events: recorder, Trigger: swept, Awaited: addresses.Awaited, Kinds: triggers},
	} {
		if err := r.SetupWithManager(mgr); err != nil {
			return nil, err
		}
	}
	restore := func(ctx context.Context) error {
		defer time.AfterFunc(beginning, db.begin).Stop()
		restored := pods.Restore(ctx)
		db.begin()
		err := errors.Join(restored, first.begin(ctx, mgr.GetClient()))
		if ctx.Err() != nil {
			return nil
		}
		triggers[topology.KindNetwork].Enqueue(network.Name) // the addresses in use are known now
		swept.Enqueue(network.Name)
		return err
	}
	return db.Engine, errors.Join(mgr.Add(&leaderRunnable{db.Run}), mgr.Add(&leaderRunnable{restore}), mgr.Add(&leaderRunnable{watch.Start}), mgr.Add(&leaderRunnable{spread.run}), mgr.Add(&leaderRunnable{probes.Run}), mgr.Add(&leaderRunnable{tunnels.Run}),
		administer(mgr, options.AdminSocket, db, origin{mgr.GetClient(), addresses, nodes, gateways, pods, answers, egress, policies, known}))
}

// lookup is how names are asked for.
func (o Options) lookup() resolver.Lookup {
	if o.Lookup != nil {
		return o.Lookup
	}
	return (&resolver.Client{Servers: resolver.FromFile(cmp.Or(o.ResolvConf, "/etc/resolv.conf"))}).Lookup
}

// wakingAddresses lets the pods of a node go on when the allocator hears of its subnets: their own look at the NodeNetwork may have
// come before.
type wakingAddresses struct {
	*alloc.Allocator
	wake func(node string)
}

// SetNode implements node.Addresses.
func (a wakingAddresses) SetNode(name string, subnets []netip.Prefix) (dropped []string) {
	defer a.wake(name)
	return a.Allocator.SetNode(name, subnets)
}

// askFor asks for the pods whose owners' names package pod made.
func askFor(pods *trigger.Trigger, owners []string) {
	for _, owner := range owners {
		pods.Enqueue(pod.NameOf(owner))
	}
}

// leaderRunnable runs only in the process that holds the lease.
type leaderRunnable struct{ run func(context.Context) error }

var _ manager.LeaderElectionRunnable = &leaderRunnable{}

// Start implements manager.Runnable.
func (l *leaderRunnable) Start(ctx context.Context) error { return l.run(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (l *leaderRunnable) NeedLeaderElection() bool { return true }
