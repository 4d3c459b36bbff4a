package controllers

import (
	"cmp"
	"time"

	"github.com/weft-network/weft/controllers/egressip"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/resolver"
)

// CountDelay is how long counts in ClusterNetwork's status may be behind, so that many pods cause one write.
const CountDelay = 2 * time.Second

// Options are the reconcilers' settings besides the manager. A nil function is not called.
type Options struct {
	// Zone is the part of the cluster whose rows are written.
	Zone kind.Zone
	// Northbound has the OVSDB remotes of the northbound database, TLS the key pair for "ssl:" remotes.
	Northbound []string
	TLS        ovndb.TLS
	Observer   ovndb.Observer
	// CountDelay is how long counts in the ClusterNetwork's status may be behind.
	CountDelay time.Duration
	// Heartbeat is the interval at which the leader proves that it sees the database, and BlindAfter how long it
	// leads without. The default is ovndb's.
	Heartbeat, BlindAfter time.Duration
	// FirstConnection is how long the ClusterNetwork's first status waits for the database, and five times as long while no
	// attempt to connect has failed. The default is 5 s.
	FirstConnection time.Duration
	// Violations receives the number of violations of each invariant, after each check.
	Violations func(invariant string, n int)
	// Reported receives each status of the ClusterNetwork: states by area (0 OK to 3 unavailable), counts of nodes, and the
	// conditions of objects that are not good.
	Reported func(areas map[string]int, ready, total int, waits []health.Wait)
	// Programmed receives the time from a change of a service's endpoints until the database had it.
	Programmed func(took time.Duration)
	// Propagated receives, after a change of a service's endpoints and at most once in database.PropagationInterval,
	// the time from the database until every chassis had it. nil disables the measurement, which saves a write per
	// chassis.
	Propagated func(took time.Duration)
	// ResolvConf is the file that lists the name servers for DNS names in policies. The default is /etc/resolv.conf.
	// Lookup, if set, replaces them.
	ResolvConf string
	Lookup     resolver.Lookup
	// Probe returns nil if a node responds at an address. With nil, every node counts as reachable. It runs each
	// ProbeInterval for the nodes that may carry egress IPs. A node that missed ProbeMisses consecutive probes is
	// unreachable. Zero values mean the defaults.
	Probe         egressip.Probe
	ProbeInterval time.Duration
	ProbeMisses   int
	// AgentProbe returns nil if a node's agent responds at an address. With nil, every agent counts as responding. It
	// runs for the nodes that may answer for load balancers' addresses.
	AgentProbe egressip.Probe
	// Announcing receives how many addresses of a LoadBalancerPool are used, free, and without a node.
	Announcing func(pool string, used, free, unannounced int64)
	// Sessions receives how many nodes must have a session with a BGPPeer, how many have one, and on how many BFD is up, or nil.
	Sessions func(peer string, nodes, established int, bfdUp *int32)
	// Workloads, if set, receives the states of Weft's workloads in Namespace.
	Workloads WorkloadObserver
	// Namespace is the namespace of the agents' pods. If it is empty, they are not watched. Version is the operator's
	// own.
	Namespace, Version string
	// ReadOnly keeps the engine from writing. Reconciled is called when all objects that existed at start were
	// reconciled once.
	ReadOnly   bool
	Reconciled func()
	// AdminSocket is the socket for the admin requests of kubectl weft. If it is empty, none are served.
	AdminSocket string
}

// lookup returns the function that resolves DNS names.
func (o Options) lookup() resolver.Lookup {
	if o.Lookup != nil {
		return o.Lookup
	}
	return (&resolver.Client{Servers: resolver.FromFile(cmp.Or(o.ResolvConf, "/etc/resolv.conf"))}).Lookup
}
