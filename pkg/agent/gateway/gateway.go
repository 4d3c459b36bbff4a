// Package gateway keeps the node's connection to the outside: the bridge or the host's link, its flows, the host's
// nftables rules, the destinations of services and host ports, and the move of a link onto a bridge.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/agent/bindings"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/nftables"
	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/agent/toobig"
	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/reserved"
)

// Gateway keeps the node's connection to the outside. Only the node's reconciler may call its methods, unless a method's
// comment permits others.
type Gateway struct {
	Node        string
	Datapath    networkv1alpha1.DatapathType
	OVS         *ovndb.Engine // of the Open_vSwitch database
	Bindings    *bindings.Bindings
	Attachments *attach.Attachments
	Sandboxes   *attach.Sandboxes // nil: no sandbox counts as lost
	Services    *Services
	TooBig      *toobig.Relay
	// Configured are the databases and the API server from this process' configuration. Listens are the ports of its own
	// listeners.
	Configured []reserved.Destination
	Listens    []reserved.Port
	// APIServer is the address at which this process reaches the API server. The zero value means that the address is
	// unknown.
	APIServer netip.AddrPort
	// Running ends with the agent. It outlives a reconciliation.
	Running context.Context

	outside  *outside
	uplinks  *uplinks
	physical physical
	moves    string       // the move of a link that this reconciliation requests
	uplink   atomic.Value // a string: the name of the link that has the encapsulation address
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

// SetUplink records the link that has the encapsulation address.
func (r *Gateway) SetUplink(link string) { r.uplink.Store(link) }

// Links returns the host's links whose changes must be watched. Any goroutine may call it.
func (r *Gateway) Links() (named []string) {
	for _, link := range []*atomic.Value{&r.uplink, &r.outside.link} {
		if name, _ := link.Load().(string); name != "" {
			named = append(named, name)
		}
	}
	physical, _ := r.physical.links.Load().([]string)
	return append(named, physical...)
}

// Exposes reports whether the pod of an interface has host ports. Any goroutine may call it.
func (r *Gateway) Exposes(interfaceID string) bool { return r.outside.exposes(interfaceID) }

// outside is the state of the node's connection to the outside. Only the reconciler uses it.
type outside struct {
	runDir  string       // of ovs-vswitchd
	link    atomic.Value // a string: the name of the watched link
	bridges map[string]*openflow.Bridge
	table   nftables.Table
	udp     map[netip.AddrPort]string // the table's translations of UDP destinations; nil: unknown

	// The data of the southbound database, as of its last connection.
	nodes         map[netip.Addr]string
	bindings      []*sbdb.PortBinding // of pods with host ports
	hostPortsRead bool
	exposed       atomic.Pointer[map[string]bool] // interface IDs of bindings
}

func newOutside(runDir string) *outside {
	return &outside{runDir: runDir, bridges: map[string]*openflow.Bridge{}}
}

// bridge returns the Bridge with that name. It is kept, because it compares the flows with its last write.
func (o *outside) bridge(name string) *openflow.Bridge {
	if o.bridges[name] == nil {
		o.bridges[name] = openflow.New(o.runDir, name)
	}
	return o.bridges[name]
}

// externalBridge is an Open vSwitch bridge that leads outside.
type externalBridge struct {
	name     string
	nic      string // its port that leads outside
	physical int    // OpenFlow number of that port; 0: not assigned yet
	patch    int    // OpenFlow number of the patch port to br-int; 0: not connected yet
}

var (
	errNoBridge = errors.New("it is no Open vSwitch bridge, nor on one")
	errNoNIC    = errors.New("it has no port that leads outside")
)

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
		stage.Reason, stage.Err = networkv1alpha1.ReasonDatabaseUnavailable, errors.New("Open vSwitch does not answer")
	case !r.Services.isRead():
		stage.Reason, stage.Err = networkv1alpha1.ReasonNotReady, errors.New("the services are not read yet")
	case !r.readHostPorts():
		stage.Reason = networkv1alpha1.ReasonNotReady
		stage.Err = errors.New("the host ports of pods are not read yet: the OVN southbound database is not connected")
	default:
		place := desired.Place{Node: r.Node, Own: desired.InternalIPs(node), Pods: desired.Prefixes(spec.ClusterSubnets)}
		if err := r.Services.at(ctx, place); err != nil {
			stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
			return stage
		}
		if spec.Gateway.Mode == networkv1alpha1.GatewayLocal {
			stage.Reason, stage.Err = r.applyLocal(ctx, node, spec, ovs.ExternalIDs, status)
		} else {
			stage.Reason, stage.Err = r.applyShared(ctx, node, spec, ovs.ExternalIDs, status)
		}
		// The host's own connections must not wait for the link outside.
		if err := r.applyRules(ctx, node, spec, status.Gateway); err != nil && stage.Err == nil {
			stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
		}
	}
	return stage
}

// applyRules writes the host's nftables table.
func (r *Gateway) applyRules(
	ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, gateway *networkv1alpha1.NodeGatewayStatus,
) error {
	rules := desired.HostRules{
		Mode: spec.Gateway.Mode, SNAT: spec.Gateway.SNAT, Addresses: desired.InternalIPs(node),
		Pods: desired.Prefixes(spec.ClusterSubnets), Apart: isApart(spec.Gateway),
	}
	if gateway != nil {
		rules.Addresses = append(rules.Addresses, gatewayAddresses(*gateway)...)
	}
	rules.Reserved = r.reserved(spec, rules.Addresses)
	rules.Frontends = r.frontends(rules.Reserved)
	if _, err := r.outside.table.Apply(ctx, rules.Table()); err != nil {
		return err
	}
	if rules.Loopback() { // after the table, which protects what this opens
		if err := hostnet.RouteLoopback(names.ManagementInterface); err != nil {
			return err
		}
	}
	former := r.outside.udp
	r.outside.udp = rules.UDP()
	if former == nil {
		return nil // after its start, the agent has no earlier translations to compare with
	}
	return hostnet.ForgetUDP(desired.Changed(former, r.outside.udp))
}

// isApart reports whether the gateway router has a link of its own that the host does not use.
func isApart(gateway networkv1alpha1.NodeGateway) bool {
	return gateway.Mode == networkv1alpha1.GatewayShared && gateway.Uplink == networkv1alpha1.UplinkInterface
}

// gatewayAddresses returns the addresses of the link outside.
func gatewayAddresses(gateway networkv1alpha1.NodeGatewayStatus) []netip.Addr {
	var found []netip.Addr
	for _, text := range gateway.Addresses {
		if address, err := text.Prefix(); err == nil {
			found = append(found, address.Addr())
		}
	}
	return found
}

// applyLocal applies Local mode, in which egress goes through the host and needs no bridge.
func (r *Gateway) applyLocal(
	ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, ids map[string]string,
	status *networkv1alpha1.NodeNetworkStatus,
) (string, error) {
	link, err := hostnet.OutsideOf(spec.Gateway.Interface)
	if err != nil {
		return networkv1alpha1.ReasonNoUplink, err
	}
	r.outside.link.Store(link.Name)
	found, err := desired.Gateway(spec.Gateway, link, desired.InternalIPs(node))
	if err != nil {
		return networkv1alpha1.ReasonNoUplink, err
	}
	if row, err := r.bridgeOf(ctx, link.Name); err == nil {
		r.outside.bridge(row.Name) // may still have flows of Shared mode
	}
	if err := hostnet.Forward(link.Name, families(spec)); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	if reason, err := r.leaveBridge(ctx, ids, ""); err != nil {
		return reason, err
	}
	if err := r.relayTooBig(externalBridge{}, found); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	found.Interface = link.Name
	status.Gateway = &found
	if err := r.giveBack(spec.Gateway); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	return "", nil
}

// forwardShared lets the host forward packets from outside if a frontend needs that.
func (r *Gateway) forwardShared(spec networkv1alpha1.NodeNetworkSpec, linkName string, frontends []desired.Frontend) error {
	if isApart(spec.Gateway) {
		return forwardApart(spec)
	}
	if slices.ContainsFunc(frontends, desired.Frontend.SpreadsOutside) {
		return hostnet.Forward(linkName, families(spec))
	}
	return nil
}

// forwardApart lets the host serve clients over links that the gateway router does not use.
func forwardApart(spec networkv1alpha1.NodeNetworkSpec) error {
	link, err := hostnet.OutsideOf("")
	if errors.Is(err, hostnet.ErrNoDefaultRoute) {
		return nil // no clients come over other links
	} else if err != nil {
		return err
	}
	return hostnet.Forward(link.Name, families(spec))
}

// applyShared shares the bridge between the gateway router and the host. The flows come before the mapping, which makes
// ovn-controller connect the router. The mapping comes before the status, from which the operator builds the router.
func (r *Gateway) applyShared(
	ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, ids map[string]string,
	status *networkv1alpha1.NodeNetworkStatus,
) (string, error) {
	bridge, link, err := r.findOutside(ctx, node, spec)
	if err != nil {
		if r.OVS.Connected() {
			status.Gateway = nil
		}
		return reasonOfOutside(err), err
	}
	r.outside.link.Store(link.Name)
	found, err := desired.Gateway(spec.Gateway, link, desired.InternalIPs(node))
	if err != nil {
		return networkv1alpha1.ReasonNoUplink, err
	}
	facts := r.externalFacts(bridge, node, spec, found)
	if _, err := r.outside.bridge(bridge.name).Apply(facts.Flows()); errors.Is(err, openflow.ErrAbsent) {
		return networkv1alpha1.ReasonDatabaseUnavailable, err
	} else if err != nil {
		return networkv1alpha1.ReasonHostError, fmt.Errorf("bridge %s: %w", bridge.name, err)
	}
	if reason, err := r.leaveBridge(ctx, ids, bridge.name); err != nil {
		return reason, err
	}
	if err := r.forwardShared(spec, link.Name, facts.Frontends); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	found.Bridge, found.Interface = bridge.name, bridge.nic
	status.Gateway = &found
	if err := r.relayTooBig(bridge, found); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	if bridge.patch == 0 {
		return networkv1alpha1.ReasonWaitingForTopology,
			fmt.Errorf("ovn-controller has not connected bridge %s with the node's gateway router", bridge.name)
	}
	return "", nil
}

// findOutside returns the bridge that leads outside, and the host's link with the same name. It moves a link that is not on a
// bridge, and a moved link that is no longer on its bridge.
func (r *Gateway) findOutside(
	ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec,
) (externalBridge, desired.Link, error) {
	if err := r.giveBack(spec.Gateway); err != nil {
		return externalBridge{}, desired.Link{}, err
	}
	link, err := hostnet.OutsideOf(spec.Gateway.Interface)
	if err != nil {
		if r.uplinks.mover != nil {
			err = cmp.Or(r.move(spec, r.uplinkRequest(node, spec, spec.Gateway.Interface)), err)
		}
		return externalBridge{}, link, err
	}
	row, err := r.bridgeOf(ctx, link.Name)
	if errors.Is(err, errNoBridge) {
		if err := r.move(spec, r.uplinkRequest(node, spec, link.Name)); err != nil && !errors.Is(err, errNoBridge) {
			return externalBridge{}, link, fmt.Errorf("link %s: %w", link.Name, err)
		}
		return externalBridge{}, link, fmt.Errorf("link %s: %w: put it on a bridge that has its addresses, "+
			"name one in ClusterNetwork's spec.gateway.interface, or choose spec.gateway.mode Local", link.Name, err)
	} else if err != nil {
		return externalBridge{}, link, err
	}
	bridge, err := r.inspect(ctx, row, link.Name)
	if errors.Is(err, errNoNIC) {
		if nic := r.uplinks.linkOf(row.Name); nic != "" {
			err = r.move(spec, r.uplinkRequest(node, spec, nic)) // someone removed the port, which disconnects the host
		}
	}
	if err == nil && row.Name != link.Name {
		link, err = hostnet.OutsideOf(row.Name) // the bridge's own link has the addresses of its port
	}
	if err == nil && spec.Gateway.Uplink == networkv1alpha1.UplinkInterface {
		err = r.uplinks.lend(&link)
	}
	return bridge, link, err
}

// bridgeOf returns the bridge with the link's name, or the bridge that has the link as a port.
func (r *Gateway) bridgeOf(ctx context.Context, link string) (*vswitchdb.Bridge, error) {
	if bridge, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Bridge{Name: link}); ok {
		return bridge, nil
	}
	port, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Port{Name: link})
	if !ok {
		return nil, errNoBridge
	}
	for _, bridge := range ovndb.List(r.OVS.Conn, func(b *vswitchdb.Bridge) bool { return b.Name != names.IntegrationBridge }) {
		ports, err := r.OVS.Elements(ctx, vswitchdb.BridgeTable, bridge.UUID, "ports")
		if err != nil {
			return nil, err
		}
		if slices.Contains(ports, port.UUID) {
			return bridge, nil
		}
	}
	return nil, errNoBridge
}

// inspect finds the bridge's port that leads outside, and its patch to br-int. nic names the former, unless nic is the
// bridge itself.
func (r *Gateway) inspect(ctx context.Context, row *vswitchdb.Bridge, nic string) (externalBridge, error) {
	if err := r.checkDatapath(row); err != nil {
		return externalBridge{}, err
	}
	found := externalBridge{name: row.Name}
	interfaces, err := r.interfacesOf(ctx, row)
	if err != nil {
		return found, err
	}
	var candidates []string
	for _, i := range interfaces {
		switch {
		case i.Name == names.PatchToIntegration(names.Localnet(row.Name, r.Node)):
			found.patch = portNumber(i)
		case i.Name == row.Name: // the bridge's own link
		case i.Name == nic || nic == row.Name && leadsOutside(i):
			found.nic, found.physical = i.Name, portNumber(i)
			candidates = append(candidates, i.Name)
		}
	}
	switch len(candidates) {
	case 0:
		return found, fmt.Errorf("bridge %s: %w", row.Name, errNoNIC)
	case 1:
		return found, nil
	}
	return found, fmt.Errorf("bridge %s: %v may all lead outside: name one in ClusterNetwork's spec.gateway.interface",
		row.Name, candidates)
}

// checkDatapath returns an error if br-int uses another datapath than the bridge.
func (r *Gateway) checkDatapath(row *vswitchdb.Bridge) error {
	if row.DatapathType == string(r.Datapath) || row.DatapathType == "" && r.Datapath == networkv1alpha1.DatapathSystem {
		return nil
	}
	return fmt.Errorf("bridge %s: datapath_type is %q and %s's %q: a patch between them forwards nothing",
		row.Name, row.DatapathType, names.IntegrationBridge, r.Datapath)
}

func (r *Gateway) interfacesOf(ctx context.Context, row *vswitchdb.Bridge) ([]*vswitchdb.Interface, error) {
	ports, err := r.OVS.Elements(ctx, vswitchdb.BridgeTable, row.UUID, "ports")
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", row.Name, err)
	}
	var found []*vswitchdb.Interface
	for _, id := range ports {
		port, ok := ovndb.Get[vswitchdb.Port](r.OVS.Conn, id)
		if !ok {
			continue
		}
		for _, id := range port.Interfaces {
			if i, ok := ovndb.Get[vswitchdb.Interface](r.OVS.Conn, id); ok {
				found = append(found, i)
			}
		}
	}
	return found, nil
}

// leadsOutside reports whether an interface is a link of the host or a network card that Open vSwitch drives itself.
func leadsOutside(i *vswitchdb.Interface) bool {
	return slices.Contains([]string{"", "system", "dpdk"}, i.Type)
}

// portNumber returns the interface's OpenFlow port, or 0 if it has none.
func portNumber(i *vswitchdb.Interface) int {
	if i.Ofport == nil {
		return 0
	}
	return max(0, *i.Ofport)
}

// externalFacts returns the facts from which the bridge's flows are computed.
func (r *Gateway) externalFacts(
	bridge externalBridge, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, found networkv1alpha1.NodeGatewayStatus,
) desired.ExternalBridge {
	facts := desired.ExternalBridge{
		Alone: isApart(spec.Gateway), Userspace: r.Datapath == networkv1alpha1.DatapathNetdev, Physical: bridge.physical,
		Patch: bridge.patch, MAC: string(found.MACAddress), Addresses: gatewayAddresses(found),
	}
	facts.Reserved = r.reserved(spec, append(desired.InternalIPs(node), facts.Addresses...))
	facts.Frontends, facts.Translated = r.frontends(facts.Reserved), desired.Translated(r.outside.bindings)
	if spec.Gateway.SNAT != networkv1alpha1.SNATNone {
		facts.Hidden = desired.Prefixes(spec.ClusterSubnets)
	}
	return facts
}

// leaveBridge maps the outside network to a bridge, or to none if bridge is empty. ids are the present external_ids of
// Open_vSwitch. It removes our flows from the previously mapped bridge after the router is disconnected from it.
func (r *Gateway) leaveBridge(ctx context.Context, ids map[string]string, bridge string) (string, error) {
	if err := r.mapBridges(ctx, ids, bridge); err != nil {
		return desired.ReasonOf(ovndb.IsPending(err)), err
	}
	if former := desired.MappedBridge(ids); former != "" && former != bridge {
		r.outside.bridge(former) // is kept until its flows are removed
	}
	for name, former := range r.outside.bridges {
		if name == bridge {
			continue
		}
		patch := names.PatchToIntegration(names.Localnet(name, r.Node))
		if _, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Interface{Name: patch}); ok {
			continue // the removal of the patch enqueues another reconciliation
		}
		if _, err := former.Apply(nil); err != nil && !errors.Is(err, openflow.ErrAbsent) {
			return networkv1alpha1.ReasonHostError, fmt.Errorf("bridge %s: %w", name, err)
		}
		delete(r.outside.bridges, name)
	}
	return "", nil
}

// families returns the IP families of the node's pods.
func families(spec networkv1alpha1.NodeNetworkSpec) (found hostnet.Families) {
	for _, network := range desired.Prefixes(spec.PodSubnets) {
		found.IPv4, found.IPv6 = found.IPv4 || network.Addr().Is4(), found.IPv6 || network.Addr().Is6()
	}
	return found
}
