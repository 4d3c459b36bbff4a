package agent

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
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/nftables"
	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/vswitchdb"
)

// outside is the node's link to the outside, kept by the reconciler alone.
type outside struct {
	runDir  string       // ovs-vswitchd's
	link    atomic.Value // name of the link, which is watched: a string
	bridges map[string]*openflow.Bridge
	table   nftables.Table
	udp     map[netip.AddrPort]string // where the table sends datagrams; nil: not known

	hostPorts     []desired.Frontend
	hostPortsRead bool
}

func newOutside(runDir string) *outside {
	return &outside{runDir: runDir, bridges: map[string]*openflow.Bridge{}}
}

// bridge is the one of that name. It is kept: it knows how its flows looked.
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
	physical int    // that port's OpenFlow number; 0: there is none yet
	patch    int    // the same of the patch to br-int

}

var (
	errNoBridge = errors.New("it is no Open vSwitch bridge, nor on one")
	errNoNIC    = errors.New("it has no port that leads outside")
)

// applyGateway makes the node's link to the outside what spec says. Without a word of the operator everything stays as it is.
func (r *nodeReconciler) applyGateway(ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, status *networkv1alpha1.NodeNetworkStatus) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionGatewayReady}
	ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](r.ovs.Conn)
	switch {
	case spec.Gateway.Mode == "":
		stage.Reason, stage.Err = networkv1alpha1.ReasonWaitingForSpec, errors.New("the operator has not said how this node reaches the outside")
	case !ok:
		stage.Reason, stage.Err = networkv1alpha1.ReasonDatabaseUnavailable, errors.New("Open vSwitch does not answer")
	case !r.services.isRead():
		stage.Reason, stage.Err = networkv1alpha1.ReasonNotReady, errors.New("the services are not read yet")
	case !r.readHostPorts():
		stage.Reason, stage.Err = networkv1alpha1.ReasonNotReady, errors.New("the host ports of pods are not read yet: the OVN southbound database is not connected")
	default:
		if err := r.services.at(ctx, desired.Place{Node: r.node, Own: internalIPs(node), Pods: prefixesOf(spec.ClusterSubnets)}); err != nil {
			stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
			return stage
		}
		mapped := ovs.ExternalIDs[desired.BridgeMappingsKey]
		if spec.Gateway.Mode == networkv1alpha1.GatewayLocal {
			stage.Reason, stage.Err = r.applyLocal(ctx, node, spec, mapped, status)
		} else {
			stage.Reason, stage.Err = r.applyShared(ctx, node, spec, mapped, status)
		}
		// What the host itself reaches does not wait for the link outside.
		if err := r.applyRules(ctx, node, spec, status.Gateway); err != nil && stage.Err == nil {
			stage.Reason, stage.Err = networkv1alpha1.ReasonHostError, err
		}
	}
	return stage
}

// applyRules makes the host's table of nftables.
func (r *nodeReconciler) applyRules(ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, gateway *networkv1alpha1.NodeGatewayStatus) error {
	rules := desired.HostRules{Mode: spec.Gateway.Mode, SNAT: spec.Gateway.SNAT, Addresses: internalIPs(node), Pods: prefixesOf(spec.ClusterSubnets),
		Apart: isApart(spec.Gateway)}
	if gateway != nil {
		rules.Addresses = append(rules.Addresses, gatewayAddresses(*gateway)...)
	}
	rules.Frontends = r.frontends()
	if _, err := r.outside.table.Apply(ctx, rules.Table()); err != nil {
		return err
	}
	if rules.Loopback() { // behind the table: it guards what this opens
		if err := hostnet.RouteLoopback(names.ManagementInterface); err != nil {
			return err
		}
	}
	former := r.outside.udp
	r.outside.udp = rules.UDP()
	if former == nil {
		return nil // an agent that starts does not know what was before it
	}
	return hostnet.ForgetUDP(desired.Changed(former, r.outside.udp))
}

// isApart reports whether the gateway router has a link of its own, and the host others.
func isApart(gateway networkv1alpha1.NodeGateway) bool {
	return gateway.Mode == networkv1alpha1.GatewayShared && gateway.Uplink == networkv1alpha1.UplinkInterface
}

// frontends are what is reached from outside at this node: services, and pods by their host ports.
func (r *nodeReconciler) frontends() []desired.Frontend {
	services, _ := r.services.frontends()
	return append(services, r.outside.hostPorts...)
}

// readHostPorts reports whether the host ports of pods are known: those of before while the database is away, and none until it was there.
func (r *nodeReconciler) readHostPorts() bool {
	if r.southbound.connected() {
		r.outside.hostPorts, r.outside.hostPortsRead = desired.HostPorts(r.southbound.withHostPorts()), true
	}
	return r.outside.hostPortsRead
}

// gatewayAddresses are those of the link outside.
func gatewayAddresses(gateway networkv1alpha1.NodeGatewayStatus) []netip.Addr {
	var found []netip.Addr
	for _, text := range gateway.Addresses {
		if address, err := text.Prefix(); err == nil {
			found = append(found, address.Addr())
		}
	}
	return found
}

func prefixesOf(texts []networkv1alpha1.CIDR) []netip.Prefix {
	var found []netip.Prefix
	for _, text := range texts {
		if network, err := text.Prefix(); err == nil {
			found = append(found, network)
		}
	}
	return found
}

// applyLocal needs no bridge: egress goes through the host.
func (r *nodeReconciler) applyLocal(ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, mapped string, status *networkv1alpha1.NodeNetworkStatus) (string, error) {
	link, err := hostnet.OutsideOf(spec.Gateway.Interface)
	if err != nil {
		return networkv1alpha1.ReasonNoUplink, err
	}
	r.outside.link.Store(link.Name)
	found, err := desired.Gateway(spec.Gateway, link, internalIPs(node))
	if err != nil {
		return networkv1alpha1.ReasonNoUplink, err
	}
	if row, err := r.bridgeOf(ctx, link.Name); err == nil {
		r.outside.bridge(row.Name) // may have flows from when it was shared
	}
	if err := hostnet.Forward(link.Name, families(spec)); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	if reason, err := r.leaveBridge(ctx, mapped, ""); err != nil {
		return reason, err
	}
	found.Interface = link.Name
	status.Gateway = &found
	if err := r.giveBack(spec.Gateway); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	return "", nil
}

// forwardShared lets the host send on what comes from outside, where there is something for which it does.
func (r *nodeReconciler) forwardShared(spec networkv1alpha1.NodeNetworkSpec, linkName string) error {
	if isApart(spec.Gateway) {
		return forwardApart(spec)
	}
	if slices.ContainsFunc(r.frontends(), desired.Frontend.SpreadsOutside) {
		return hostnet.Forward(linkName, families(spec))
	}
	return nil
}

// forwardApart lets the host serve clients by links that the gateway router does not have.
func forwardApart(spec networkv1alpha1.NodeNetworkSpec) error {
	link, err := hostnet.OutsideOf("")
	if errors.Is(err, hostnet.ErrNoDefaultRoute) {
		return nil // nobody comes from elsewhere
	} else if err != nil {
		return err
	}
	return hostnet.Forward(link.Name, families(spec))
}

// applyShared lets the gateway router have the bridge together with the host. Flows come before the mapping, which makes ovn-controller
// connect the router, and that before the status, of which the operator builds it.
func (r *nodeReconciler) applyShared(ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, mapped string, status *networkv1alpha1.NodeNetworkStatus) (string, error) {
	bridge, link, err := r.findOutside(ctx, node, spec)
	if err != nil {
		if r.ovs.Connected() {
			status.Gateway = nil
		}
		return reasonOfOutside(err), err
	}
	r.outside.link.Store(link.Name)
	found, err := desired.Gateway(spec.Gateway, link, internalIPs(node))
	if err != nil {
		return networkv1alpha1.ReasonNoUplink, err
	}
	if _, err := r.outside.bridge(bridge.name).Apply(r.externalFlows(bridge, spec, found)); errors.Is(err, openflow.ErrAbsent) {
		return networkv1alpha1.ReasonDatabaseUnavailable, err
	} else if err != nil {
		return networkv1alpha1.ReasonHostError, fmt.Errorf("bridge %s: %w", bridge.name, err)
	}
	if reason, err := r.leaveBridge(ctx, mapped, bridge.name); err != nil {
		return reason, err
	}
	if err := r.forwardShared(spec, link.Name); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	found.Bridge, found.Interface = bridge.name, bridge.nic
	status.Gateway = &found
	if bridge.patch == 0 {
		return networkv1alpha1.ReasonWaitingForTopology, fmt.Errorf("ovn-controller has not connected bridge %s with the node's gateway router", bridge.name)
	}
	return "", nil
}

// findOutside returns the bridge that leads outside and the host's link of that name. A link that is on none is moved, and so is one that
// was and is not to be found any more.
func (r *nodeReconciler) findOutside(ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec) (externalBridge, desired.Link, error) {
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
		return externalBridge{}, link, fmt.Errorf("link %s: %w: put it on a bridge that has its addresses, name one in ClusterNetwork's spec.gateway.interface, or choose spec.gateway.mode Local", link.Name, err)
	} else if err != nil {
		return externalBridge{}, link, err
	}
	bridge, err := r.lookAt(ctx, row, link.Name)
	if errors.Is(err, errNoNIC) {
		if nic := r.uplinks.linkOf(row.Name); nic != "" {
			err = r.move(spec, r.uplinkRequest(node, spec, nic)) // somebody took it off: the host is cut off
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

// bridgeOf returns the bridge that is the link, or has it as a port.
func (r *nodeReconciler) bridgeOf(ctx context.Context, link string) (*vswitchdb.Bridge, error) {
	if bridge, ok := ovndb.Find(r.ovs.Conn, &vswitchdb.Bridge{Name: link}); ok {
		return bridge, nil
	}
	port, ok := ovndb.Find(r.ovs.Conn, &vswitchdb.Port{Name: link})
	if !ok {
		return nil, errNoBridge
	}
	for _, bridge := range ovndb.List(r.ovs.Conn, func(b *vswitchdb.Bridge) bool { return b.Name != names.IntegrationBridge }) {
		ports, err := r.ovs.Elements(ctx, vswitchdb.BridgeTable, bridge.UUID, "ports")
		if err != nil {
			return nil, err
		}
		if slices.Contains(ports, port.UUID) {
			return bridge, nil
		}
	}
	return nil, errNoBridge
}

// lookAt finds the ports of the bridge that matter. nic names the one that leads outside, unless it is the bridge itself.
func (r *nodeReconciler) lookAt(ctx context.Context, row *vswitchdb.Bridge, nic string) (externalBridge, error) {
	if row.DatapathType != string(r.datapath) && (row.DatapathType != "" || r.datapath != networkv1alpha1.DatapathSystem) {
		return externalBridge{}, fmt.Errorf("bridge %s: datapath_type is %q and %s's %q: a patch between them forwards nothing", row.Name, row.DatapathType, names.IntegrationBridge, r.datapath)
	}
	found := externalBridge{name: row.Name}
	interfaces, err := r.interfacesOf(ctx, row)
	if err != nil {
		return found, err
	}
	var candidates []string
	for _, i := range interfaces {
		switch {
		case i.Name == names.PatchToIntegration(names.Localnet(row.Name, r.node)):
			found.patch = portNumber(i)
		case i.Name == row.Name: // the host's own end
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
	return found, fmt.Errorf("bridge %s: %v may all lead outside: name one in ClusterNetwork's spec.gateway.interface", row.Name, candidates)
}

func (r *nodeReconciler) interfacesOf(ctx context.Context, row *vswitchdb.Bridge) ([]*vswitchdb.Interface, error) {
	ports, err := r.ovs.Elements(ctx, vswitchdb.BridgeTable, row.UUID, "ports")
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", row.Name, err)
	}
	var found []*vswitchdb.Interface
	for _, id := range ports {
		port, ok := ovndb.Get[vswitchdb.Port](r.ovs.Conn, id)
		if !ok {
			continue
		}
		for _, id := range port.Interfaces {
			if i, ok := ovndb.Get[vswitchdb.Interface](r.ovs.Conn, id); ok {
				found = append(found, i)
			}
		}
	}
	return found, nil
}

// leadsOutside: a link of the host's, or a card that Open vSwitch drives itself.
func leadsOutside(i *vswitchdb.Interface) bool {
	return slices.Contains([]string{"", "system", "dpdk"}, i.Type)
}

// portNumber is the interface's OpenFlow port; 0: it has none.
func portNumber(i *vswitchdb.Interface) int {
	if i.Ofport == nil {
		return 0
	}
	return max(0, *i.Ofport)
}

func (r *nodeReconciler) externalFlows(bridge externalBridge, spec networkv1alpha1.NodeNetworkSpec, found networkv1alpha1.NodeGatewayStatus) []desired.Flow {
	facts := desired.ExternalBridge{Alone: isApart(spec.Gateway), Physical: bridge.physical, Patch: bridge.patch, MAC: string(found.MACAddress), Addresses: gatewayAddresses(found)}
	facts.Frontends = r.frontends()
	if spec.Gateway.SNAT != networkv1alpha1.SNATNone {
		facts.Hidden = prefixesOf(spec.ClusterSubnets)
	}
	return facts.Flows()
}

// leaveBridge maps the network outside to a bridge, "" for none, and takes our flows off the one that it was mapped to before, as soon as
// nothing connects it with a router any more.
func (r *nodeReconciler) leaveBridge(ctx context.Context, mapped, bridge string) (string, error) {
	if err := r.ovs.Apply(ctx, desired.BridgeMapping(mapped, bridge)); err != nil {
		return reasonOf(err), err
	}
	if former := desired.MappedBridge(mapped); former != "" && former != bridge {
		r.outside.bridge(former) // stays known until its flows are gone
	}
	for name, former := range r.outside.bridges {
		if name == bridge {
			continue
		}
		if _, ok := ovndb.Find(r.ovs.Conn, &vswitchdb.Interface{Name: names.PatchToIntegration(names.Localnet(name, r.node))}); ok {
			continue // its removal comes back here
		}
		if _, err := former.Apply(nil); err != nil && !errors.Is(err, openflow.ErrAbsent) {
			return networkv1alpha1.ReasonHostError, fmt.Errorf("bridge %s: %w", name, err)
		}
		delete(r.outside.bridges, name)
	}
	return "", nil
}

// families says of which families the node's pods are.
func families(spec networkv1alpha1.NodeNetworkSpec) (found hostnet.Families) {
	for _, network := range prefixesOf(spec.PodSubnets) {
		found.IPv4, found.IPv6 = found.IPv4 || network.Addr().Is4(), found.IPv6 || network.Addr().Is6()
	}
	return found
}

// internalIPs are all of the Node's InternalIPs.
func internalIPs(node *corev1.Node) []netip.Addr {
	var found []netip.Addr
	for _, a := range node.Status.Addresses {
		if address, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			found = append(found, address)
		}
	}
	return found
}
