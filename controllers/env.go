package controllers

import (
	"context"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/clusternetwork"
	"github.com/weft-network/weft/controllers/database"
	"github.com/weft-network/weft/controllers/egressip"
	"github.com/weft-network/weft/controllers/externalroute"
	"github.com/weft-network/weft/controllers/gateway"
	"github.com/weft-network/weft/controllers/invariantcheck"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/controllers/loadbalancerpool"
	"github.com/weft-network/weft/controllers/sweep"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/addresses/lookup"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/history"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/process/resolver"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/selection"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	// strayDelay is how long a sweep for rows of unknown owners waits, so that many rows cause one sweep.
	strayDelay = 500 * time.Millisecond
	// tunnelInterval is the interval at which management ports are probed through the network. Three consecutive
	// replies must be missing, because Open vSwitch may be replaced meanwhile.
	tunnelInterval = 15 * time.Second
	// speakerInterval is the interval at which the agents of nodes that answer for load balancers' addresses are probed.
	// After three missing replies the addresses move, so that they are away for less than 2 s.
	speakerInterval = 400 * time.Millisecond
)

// newEnv returns the operator's Env, without its Database and Observed.
func newEnv(mgr ctrl.Manager, options Options) *kind.Env {
	env := &kind.Env{
		Client: options.Zone.Client(mgr.GetClient()), Live: mgr.GetAPIReader(), Events: options.Zone.Events(mgr.GetEventRecorder("weft")),
		Zone: options.Zone, Triggers: &trigger.Set{},
		Addresses: alloc.New(time.Now), NetworkAddresses: alloc.NewSet(time.Now),
		Names: resolver.New(options.lookup(), time.Now), Served: &kind.Served{},
		Reserved: lookup.Lookup{
			Client: mgr.GetClient(), Indexes: lookup.Indexes{ByAddress: gateway.ByAddress, ByService: balance.ByService,
				ByNodePort: kind.ServicesByNodePort, ByHostPort: kind.PodsByHostPort},
			Static: append(reserved.Remotes("the OVN northbound database", options.Northbound...), lookup.Server(mgr.GetConfig())...),
		},
		Settings: kind.Settings{
			CountDelay: options.CountDelay, FirstConnection: options.FirstConnection, Namespace: options.Namespace,
			Version:  options.Version,
			Announce: true, Reported: options.Reported, Programmed: options.Programmed, Announcing: options.Announcing,
			Sessions: options.Sessions,
		},
	}
	env.Floating = claim.New(env.Client, env.Live, time.Now)
	env.Selectors = selection.NewSelectors(env.Triggers)
	return env
}

// newDatabase creates the engine, and sets env.Database.
func newDatabase(mgr ctrl.Manager, options Options, env *kind.Env) *database.Database {
	enqueueNetwork := func() { env.Triggers.Enqueue(topology.KindNetwork, theNetwork) }
	db := database.New(mgr.GetAPIReader(), enqueueNetwork)
	db.Zone = options.Zone
	db.Engine = ovndb.NewEngine(ovndb.Config{
		OnRow:  ovndb.OnTable(nbdb.BFDTable, func() { env.Triggers.Enqueue(topology.KindExternalRoute, externalroute.All) }),
		Schema: northbound.Schema(), Endpoints: options.Northbound, TLS: options.TLS, Observer: db.Observe(options.Observer),
		Log:   ctrl.Log.WithName("ovndb"),
		Admit: db.Admit, Heartbeat: options.Heartbeat, BlindAfter: options.BlindAfter, ReadOnly: options.ReadOnly,
		OnConnect: func(up bool) {
			enqueueNetwork()
			if up {
				env.Triggers.Enqueue(sweep.Name, theNetwork)
				env.Triggers.Enqueue(topology.KindEgressIP, egressip.All)
				env.Triggers.Enqueue(topology.KindExternalRoute, externalroute.All)
				env.Triggers.Enqueue(topology.KindLoadBalancerPool, loadbalancerpool.All)
				// Their units depend on what the server can store.
				for _, name := range env.Floating.Book.Pods(networkv1alpha1.LocationNAT) {
					env.Triggers.Enqueue(topology.KindPod, name)
				}
			}
		},
		Writer: strings.TrimSpace("weft " + options.Version), History: &history.Recorder{},
		OnDrift: func() { env.Triggers.EnqueueAfter(topology.KindNetwork, theNetwork, options.CountDelay) },
		OnStray: func() { env.Triggers.EnqueueAfter(sweep.Name, theNetwork, strayDelay) },
	}, func(key unit.Key, _ error) { env.Triggers.EnqueueUnit(key) })
	env.Database, env.Selectors.Units, env.Begun = db, db, db.Begun
	return db
}

// observe creates the observers that run beside the reconcilers, sets env.Observed, and returns the functions to run
// while this process leads.
func observe(env *kind.Env, db *database.Database, options Options) []func(context.Context) error {
	enqueueNetwork := func() { env.Triggers.Enqueue(topology.KindNetwork, theNetwork) }
	propagation := database.NewPropagation(db.Engine, options.Propagated, enqueueNetwork)
	watch := invariantcheck.NewWatch(worldOf(env, db), options.Violations, enqueueNetwork)
	carriers := egressip.NewProber(egressip.Carriers(env.Client), options.Probe, options.ProbeInterval, options.ProbeMisses,
		func() { env.Triggers.Enqueue(topology.KindEgressIP, egressip.All) })
	tunnels := egressip.NewProber(clusternetwork.ManagementPorts(env.Client), options.Probe, tunnelInterval,
		egressip.DefaultProbeMisses, enqueueNetwork)
	enqueuePools := func() { env.Triggers.Enqueue(topology.KindLoadBalancerPool, loadbalancerpool.All) }
	routers := egressip.NewProber(loadbalancerpool.Speakers(env.Client, false), options.AgentProbe, speakerInterval,
		egressip.DefaultProbeMisses, enqueuePools)
	hosts := egressip.NewProber(loadbalancerpool.Speakers(env.Client, true), options.Probe, speakerInterval,
		egressip.DefaultProbeMisses, enqueuePools)
	answers := func(node string) bool { return routers.Reachable(node) && hosts.Reachable(node) }
	env.Observed = kind.Observed{AgentReachable: answers, Violations: watch.Violations, Silent: propagation.Silent, Late: propagation.Late,
		Unreached: tunnels.Unreachable, Reachable: carriers.Reachable}
	db.Written = propagation.Request
	observers := []func(context.Context) error{propagation.Run, watch.Start}
	if !options.Zone.Follows() { // only who decides needs to know which nodes respond
		observers = append(observers, carriers.Run, tunnels.Run, routers.Run, hosts.Run)
	}
	return observers
}
