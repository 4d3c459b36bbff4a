package kind

import (
	"context"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/addresses/lookup"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/resolver"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/selection"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the part of the northbound database that reconcilers use: the engine, or the record of a plan.
type Database interface {
	selection.Units
	Apply(ctx context.Context, u unit.Unit) error
	ApplyAll(ctx context.Context, units ...unit.Unit) error
	Retry(ctx context.Context, key unit.Key) error
	// Unit returns the unit of a key as this process wants it. It is empty if none was applied.
	Unit(key unit.Key) unit.Unit
	Connected() bool
	Wait(ctx context.Context, ready func() (bool, error)) error
	Refused() error
	Failure() error
	Drifts() ovndb.DriftReport
	ReportOnly(on bool)
	Has(table, column string) bool
	Wanted(key unit.Key) bool
	Owners() (owners map[unit.Key]int, ok bool)
	RowsOf(key unit.Key) (rows []unit.Row, known bool)
	Elements(ctx context.Context, table, uuid, column string) ([]string, error)
	Ports(ctx context.Context) ([]*nbdb.LogicalSwitchPort, error)
	// Watched lists the BFD sessions of gateway routers. They must not be changed.
	Watched() []*nbdb.BFD
}

// Env is what reconcilers are built from. Packages of reconcilers do not import each other; they share the contents
// of an Env.
type Env struct {
	// Client reads from the cache. In a plan it also keeps what is written.
	Client client.Client
	// Live reads from the API server, past the cache. It is nil in a plan.
	Live     client.Reader
	Database Database
	Events   events.EventRecorder
	// Zone is the part of the cluster whose rows this operator writes.
	Zone Zone
	// Triggers enqueues objects for the reconcilers of a kind.
	Triggers *trigger.Set

	// Addresses holds the addresses in use, Names the answers of name servers, Selectors the selectors that policies
	// use, Served the optional kinds that the API server serves, and Reserved the addresses and ports that the
	// cluster itself needs.
	Addresses *alloc.Allocator
	Names     *resolver.Names
	Selectors *selection.Selectors
	Served    *Served
	Reserved  lookup.Lookup

	// PolicyNames records the sets of DNS names that cluster-wide policies name, once Selectors are loaded.
	PolicyNames SetUsers
	// ClusterPolicies lists the policies of network-policy-api, and PoliciesReported publishes that a policy's conditions changed or
	// that a policy was deleted. Package policy sets the function.
	ClusterPolicies  func(ctx context.Context) ([]metav1.Object, error)
	PoliciesReported Topic[struct{}]

	// Wildcards lists the DNS names with wildcards that firewalls and policies name, sorted. WildcardsChanged publishes that
	// the list has changed. Package egressfirewall sets the function.
	Wildcards        func(ctx context.Context) ([]string, error)
	WildcardsChanged Topic[struct{}]

	// ServiceProbes lists the addresses that Services wait for until a node has probed them, and the addresses of LoadBalancerPools that
	// foreign hosts have. Package loadbalancer sets the function.
	ServiceProbes func(ctx context.Context) ([]netip.Addr, error)

	// NetworkAddresses has the addresses in use of each Network. RestoreNetworks fills it from the ports that exist, and
	// then enqueues each Network; it waits for the database. Attached counts the pods' interfaces on a Network by namespace;
	// known is false before RestoreNetworks has succeeded. AttachedPods lists the pods that have any. OnSegments lists the attachments of a
	// node's pods to Localnet Networks: physical network -> "demo/web@net1". Package podports sets these functions.
	// Detached publishes that pods have lost attachments, or that OnSegments has all attachments now.
	NetworkAddresses *alloc.Set
	RestoreNetworks  func(ctx context.Context) error
	Attached         func(network string) (byNamespace map[string]int, known bool)
	AttachedPods     func() []types.NamespacedName
	OnSegments       func(ctx context.Context, node string) (users map[networkv1alpha1.PhysicalNetworkName][]string, known bool)
	Detached         Topic[struct{}]

	// Floating gives addresses of IPPools to pods. FloatingFreed publishes a pool that may have an address for a pod
	// that waits, and PortsFreed a floating address that no port has any more.
	Floating      *claim.Claimer
	FloatingFreed Topic[string]
	PortsFreed    Topic[netip.Addr]

	// NodeRestored publishes each NodeNetwork that the cache had when Addresses was filled.
	NodeRestored Topic[*networkv1alpha1.NodeNetwork]
	// SubnetsSet publishes a node whose subnets the allocator now has. AddressesLost publishes the owners whose
	// addresses went with their node, or with its subnet. PodsOutdated publishes the owners whose addresses differ from
	// now on from a new pod's.
	SubnetsSet    Topic[string]
	AddressesLost Topic[[]alloc.Owner]
	PodsOutdated  Topic[[]alloc.Owner]
	// Begun waits until units may be applied: the addresses in use are restored, or have not been for some seconds. It is nil in a
	// plan.
	Begun func(ctx context.Context) error
	// HasNoNetwork reports whether a node has no NodeNetwork and gets none for now. Package node sets it.
	HasNoNetwork func(node string) bool
	// Restore fills Addresses from durable state. It waits for the database. AddressedPods lists the pods that have
	// addresses in it. Package pod sets these functions.
	Restore       func(ctx context.Context) error
	AddressedPods func() []types.NamespacedName
	// PodsLackAddress reports whether pods of a node find no address in the node's subnets. Only a zone's operator reads
	// that. Package pod sets the function.
	PodsLackAddress func(node string) bool

	Observed Observed
	Settings Settings

	// origin holds the operator's reconciler of each kind. It is nil in the operator's own Env.
	origin map[string]reconcile.Reconciler
}

// Observed holds observations that are made beside the reconcilers and reported by them. A nil function means that
// nothing observes it.
type Observed struct {
	// Violations returns the violated invariants.
	Violations func() []invariant.Violation
	// Silent returns the request to which ovn-northd does not respond, or "".
	Silent func() string
	// Late returns since when not every chassis has acknowledged the changes of the northbound database, or zero.
	Late func() time.Time
	// Unreached returns the nodes whose management port does not respond through the network.
	Unreached func() []string
	// Reachable reports whether a node responds at the addresses that egress IPs need.
	Reachable func(node string) bool
	// AgentReachable reports whether a node's agent responds. The nodes that answer for load balancers' addresses are
	// chosen by it.
	AgentReachable func(node string) bool
}

// Settings are the operator's settings. The zero value is for plans.
type Settings struct {
	// CountDelay is how long counts in statuses may be behind.
	CountDelay time.Duration
	// FirstConnection is how long the first status waits for the database, and five times as long while no attempt to
	// connect has failed. The default is 5 s.
	FirstConnection time.Duration
	// Namespace is the namespace of the agents' pods. If it is empty, they are not watched. Version is the operator's
	// version.
	Namespace, Version string
	// Announce records an event for each change of a condition of the ClusterNetwork.
	Announce bool
	// Reported, if set, receives each status of the ClusterNetwork: states by area (0 OK to 3 unavailable),
	// counts of nodes, and the conditions of objects that are not good.
	Reported func(areas map[string]int, ready, total int, waits []health.Wait)
	// Announcing, if set, receives how many addresses of a LoadBalancerPool are used, free, and without a node.
	Announcing func(pool string, used, free, unannounced int64)
	// Sessions, if set, receives how many nodes must have a session with a BGPPeer, how many have one, and on how many BFD is
	// up. The counts are 0 for a deleted peer. bfdUp is nil for a peer without BFD.
	Sessions func(peer string, nodes, established int, bfdUp *int32)
	// Programmed, if set, receives the time from a change of a service's endpoints until the database had it.
	Programmed func(took time.Duration)
}

// Fork returns the Env of a plan that continues from e's state.
func (e *Env) Fork(c client.Client, db Database, recorder events.EventRecorder, kinds []*Kind) *Env {
	fork := &Env{Client: e.Zone.Client(c), Database: db, Events: e.Zone.Events(recorder), Zone: e.Zone,
		Triggers: &trigger.Set{}, Names: e.Names, Served: e.Served,
		Reserved: e.Reserved,
		Observed: Observed{Reachable: e.Observed.Reachable, AgentReachable: e.Observed.AgentReachable},
		origin:   map[string]reconcile.Reconciler{}}
	fork.Reserved.Client = c
	e.PolicyNames.copyTo(&fork.PolicyNames)
	fork.Floating = claim.New(c, nil, time.Now)
	fork.Selectors = e.Selectors.Fork(fork.Triggers, db)
	for _, k := range kinds {
		fork.origin[k.Name] = k.Reconciler
	}
	return fork
}

// IsPlan reports whether the reconcilers made from e only plan.
func (e *Env) IsPlan() bool { return e.origin != nil }

// Origin returns the operator's reconciler of a kind, whose state a plan copies. ok is false in the operator.
func Origin[R reconcile.Reconciler](e *Env, kind string) (r R, ok bool) {
	r, ok = e.origin[kind].(R)
	return r, ok
}
