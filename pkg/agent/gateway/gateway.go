// Package gateway keeps the node's connection to the outside: the bridge or the host's link, its flows, the host's
// nftables rules, the destinations of services and host ports, and the move of a link onto a bridge.
package gateway

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/agent/bindings"
	"github.com/weft-network/weft/pkg/agent/daemon"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/nftables"
	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/agent/repairs"
	"github.com/weft-network/weft/pkg/agent/toobig"
	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// Gateway keeps the node's connection to the outside. Only the node's reconciler may call its methods, unless a method's
// comment permits others.
type Gateway struct {
	Node        string
	Datapath    networkv1alpha1.DatapathType
	OVS         *ovndb.Engine  // of the Open_vSwitch database
	Switch      *daemon.Daemon // ovs-vswitchd
	Bindings    *bindings.Bindings
	Attachments *attach.Attachments
	Sandboxes   *attach.Sandboxes // nil: no sandbox counts as lost
	Services    *Services
	Health      *ProxyHealth
	TooBig      *toobig.Relay
	Repairs     *repairs.Ledger
	// Configured are the databases and the API server from this process' configuration. Listens are the ports of its own
	// listeners.
	Configured []reserved.Destination
	Listens    []reserved.Port
	// APIServer is the address at which this process reaches the API server. The zero value means that the address is
	// unknown.
	APIServer netip.AddrPort
	// Running ends with the agent. It outlives a reconciliation.
	Running context.Context
	// After enqueues a reconciliation after a time.
	After func(time.Duration)

	outside   *outside
	uplinks   *uplinks
	hops      hops
	physical  physical
	addresses desired.Addresses
	moves     string               // the move of a link that this reconciliation requests
	remade    map[string]time.Time // when ApplyHost had a link made again, by its name
	// effective are the settings of the last way outside. The zero value means that there was none yet.
	effective networkv1alpha1.NodeGateway
	tunnels   atomic.Pointer[[]string]
}

// Init must be called before any other method. switchDir is the run directory of ovs-vswitchd. A nil mover leaves links
// where they are. changed enqueues a reconciliation at once, and later after RetryMove.
func (r *Gateway) Init(switchDir string, mover *uplink.Mover, changed, later func()) {
	r.outside = newOutside(switchDir)
	r.uplinks = &uplinks{mover: mover, changed: changed, later: later}
}

// Begin starts a reconciliation, which has not requested a move yet.
func (r *Gateway) Begin() { r.moves = "" }

// Move returns the move of a link that the reconciliation requests, for NodeNetwork.status.move. It is empty without a
// request.
func (r *Gateway) Move() string { return r.moves }

// SetTunnels records which links have encapsulation addresses. They must be watched.
func (r *Gateway) SetTunnels(links []string) { r.tunnels.Store(&links) }

// Links returns the host's links whose changes must be watched. Any goroutine may call it.
func (r *Gateway) Links() (named []string) {
	if t := r.tunnels.Load(); t != nil {
		named = append(named, *t...)
	}
	for _, link := range []*atomic.Value{&r.outside.link, &r.outside.wanted} {
		if name, _ := link.Load().(string); name != "" {
			named = append(named, name)
		}
	}
	if r.outside.leadsToHost.Load() {
		named = append(named, names.EgressInterface)
	}
	further, _ := r.outside.further.Load().([]string)
	named = append(named, further...)
	physical, _ := r.physical.links.Load().([]string)
	return append(named, physical...)
}

// Exposes reports whether the pod of an interface has host ports. Any goroutine may call it.
func (r *Gateway) Exposes(interfaceID string) bool { return r.outside.exposes(interfaceID) }

// outside is the state of the node's connection to the outside. Only the reconciler uses it.
type outside struct {
	runDir string       // of ovs-vswitchd
	link   atomic.Value // a string: the name of the link in use
	wanted atomic.Value // a string: the name of the link that spec wants
	// leadsToHost is whether the host has a port to the gateway router, in Local mode.
	leadsToHost atomic.Bool
	forwards    bool         // the host forwards packets of clients in Shared mode
	further     atomic.Value // []string: the host's other links that may have egress IPs
	bridges     map[string]*openflow.Bridge
	table       nftables.Table
	tunnels     nftables.Table // Tunnels
	firewall    nftables.Firewall
	guards      *nftables.Guards
	drops       error                                // of firewalls that drop packets of pods
	udp         map[netip.AddrPort]desired.UDPTarget // the table's translations of UDP destinations; nil: unknown
	remaining   remaining                            // of Open vSwitch's stale entries
	sources     sources
	// reserved are the destinations that no host port may use; nil: not computed yet.
	reserved atomic.Pointer[reserved.Table]

	// The data of the southbound database, as of its last connection.
	nodes         map[netip.Addr]string
	bindings      []*sbdb.PortBinding // of pods with host ports or translated addresses
	hostPortsRead bool
	exposed       atomic.Pointer[map[string]bool] // interface IDs of bindings
	announced     map[netip.Addr]announced        // addresses that came to this node
	answered      map[netip.Addr]string           // address that the gateway router answers for -> UUID of the binding
	egress        bool                            // the node has a gateway router of Local mode
	carried       []netip.Addr                    // sources of pods that this router carries
	balanced      []netip.Addr                    // addresses of load balancers for which the host answers in Local mode
}

// leadsThroughPort reports whether the host needs its port to the gateway router of Local mode.
func (o *outside) leadsThroughPort() bool { return o.egress || len(o.balanced) > 0 }

func newOutside(runDir string) *outside {
	return &outside{runDir: runDir, bridges: map[string]*openflow.Bridge{}, guards: nftables.NewGuards(),
		tunnels: nftables.Table{Of: nftables.Tunnels}}
}

// bridge returns the Bridge with that name. It is kept, because it compares the flows with its last write.
func (o *outside) bridge(name string) *openflow.Bridge {
	if o.bridges[name] == nil {
		o.bridges[name] = openflow.New(o.runDir, name)
	}
	return o.bridges[name]
}

// readAddresses reads the node's addresses from its host, and reports the addresses that the operator does not find elsewhere.
func (r *Gateway) readAddresses(node *corev1.Node, w way, found bool, status *networkv1alpha1.NodeNetworkStatus) error {
	links, err := hostnet.Addresses()
	if err != nil {
		return err
	}
	internal := desired.InternalIPs(node)
	known := internal
	switch {
	case found:
		known = append(known, gatewayAddresses(w.found)...)
	case status.Gateway != nil:
		known = append(known, gatewayAddresses(*status.Gateway)...)
	}
	r.addresses = desired.NewAddresses(known, links, w.spec, internal)
	status.HostAddresses = r.addresses.Reported(known)
	return nil
}

// Apply makes the node's connection to the outside match spec. It changes nothing until the operator has set the mode.
func (r *Gateway) Apply(
	ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, status *networkv1alpha1.NodeNetworkStatus,
) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionGatewayReady}
	ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](r.OVS.Conn)
	switch {
	case spec.Gateway.Mode == "":
		stage.Reason = networkv1alpha1.ReasonWaitingForSpec
		stage.Err = errors.New("the operator has not said how this node reaches the outside")
	case !ok:
		stage.Reason, stage.Err = networkv1alpha1.ReasonDatabaseUnavailable, r.noSwitch()
	case !r.Services.isRead():
		stage.Reason, stage.Err = networkv1alpha1.ReasonNotReady, errors.New("the services are not read yet")
	case !r.readHostPorts():
		stage.Reason = networkv1alpha1.ReasonNotReady
		stage.Err = errors.New("the host ports of pods are not read yet: the OVN southbound database is not connected")
	default:
		r.Health.begin()
		w, found, refused := r.choose(ctx, node, spec, ovs.ExternalIDs, status.Gateway)
		if err := r.readAddresses(node, w, found, status); err != nil {
			stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
			return stage
		}
		place := desired.Place{Mode: w.spec.Gateway.Mode, Pods: desired.Prefixes(spec.ClusterSubnets), Node: facts.ServiceNode{
			Name: r.Node, Zone: node.Labels[corev1.LabelTopologyZone], Addresses: r.addresses.Own}}
		if err := r.Services.at(ctx, place); err != nil {
			stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
			return stage
		}
		if found {
			stage.Reason, stage.Err = r.follow(ctx, w, ovs.ExternalIDs, status)
		} else if spec.Gateway.Mode == networkv1alpha1.GatewayShared && r.OVS.Connected() && !isUnderWay(refused) {
			status.Gateway = nil
		}
		// The host's own connections must not wait for the link outside.
		err := errors.Join(r.applyRules(ctx, w.spec), r.applyGuards())
		if found && err == nil && stage.Err == nil {
			r.Health.done(familyNames(families(spec)))
		}
		r.addHostError(&stage, errors.Join(err, r.removeStale(ctx), r.endSources(ctx, w.spec, status.Gateway)))
		if err := r.addresses.CheckPorts(w.spec); err != nil && stage.Err == nil {
			stage.Reason, stage.Err = networkv1alpha1.ReasonNoPortAddress, err
		}
		if refused != nil {
			stage.Err = errors.Join(refused, stage.Err)
			if stage.Reason != networkv1alpha1.ReasonHostError && stage.Reason != networkv1alpha1.ReasonDatabaseError { // are retried
				stage.Reason = reasonOfOutside(refused)
			}
		}
		if r.outside.drops != nil && stage.Err == nil {
			stage.Reason, stage.Err = networkv1alpha1.ReasonForwardingBlocked, r.outside.drops
		}
		if contested := r.Repairs.Contested(); contested != nil && stage.Err == nil {
			stage.Reason, stage.Err = networkv1alpha1.ReasonForeignChanges, contested
		}
	}
	return stage
}

// hostRetry is the time until the host is changed again after an error, while the node waits for something else.
const hostRetry = 2 * time.Second

// addHostError adds an error of the host to a stage. A reason to wait stays, because any other would end a change of the gateway.
func (r *Gateway) addHostError(stage *desired.Stage, err error) {
	if err == nil {
		return
	}
	if stage.Err == nil {
		stage.Reason = networkv1alpha1.ReasonHostError // is retried
	} else {
		r.After(hostRetry)
	}
	stage.Err = errors.Join(stage.Err, err)
}
