package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// physical is the node's connection with physical networks. Only the reconciler writes it.
type physical struct {
	bridges map[string]string // physical network -> bridge that leads to it
	mapped  []string          // the physical networks that the last mapping had
	links   atomic.Value      // a []string: the watched links and bridges
}

var (
	errNoLink   = errors.New("the node has no such link")
	errNoSwitch = errors.New("Open vSwitch has no such bridge")
)

// ApplyPhysical connects the node with the physical networks of its spec: it moves their links onto bridges, maps their
// names, and restores the links that no physical network uses any more. It must be called before Apply, which writes the
// same mapping.
func (r *Gateway) ApplyPhysical(
	ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, status *networkv1alpha1.NodeNetworkStatus,
) desired.Stage {
	stage := desired.Stage{Type: networkv1alpha1.ConditionPhysicalNetworksReady}
	ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](r.OVS.Conn)
	switch {
	case spec.NodeID == 0: // a missing spec must not take the links off their bridges
		stage.Reason, stage.Err = networkv1alpha1.ReasonWaitingForSpec, errors.New("the operator has not given this node an ID yet")
	case !ok: // the status keeps its last data, because pods of the node work as before
		stage.Reason, stage.Err = networkv1alpha1.ReasonDatabaseUnavailable, r.noSwitch()
	default:
		stage.Reason, stage.Err = r.connectAll(ctx, node, spec, ovs.ExternalIDs, status)
	}
	return stage
}

// connectAll connects the node with each physical network. ids are the present external_ids of Open_vSwitch. It returns
// the reason of the first failure and all errors.
func (r *Gateway) connectAll(ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, ids map[string]string,
	status *networkv1alpha1.NodeNetworkStatus) (reason string, failed error) {
	r.watchPhysical(spec)
	foreign := desired.ForeignMappings(ids, r.physical.mapped...)
	r.physical.bridges, status.PhysicalNetworks = map[string]string{}, nil
	for _, p := range spec.PhysicalNetworks {
		bridge, err := r.connect(node, spec, status.Gateway, p)
		if other, taken := foreign[string(p.Name)]; taken && err == nil {
			err = fmt.Errorf("another program has mapped the name to bridge %s in %s", other, vswitchdb.BridgeMappingsKey)
		}
		if former, ok := r.formerBridge(ids, foreign, p); err != nil && ok {
			bridge, err = former, fmt.Errorf("%w; until then bridge %s stays connected", err, former)
			r.physical.bridges[string(p.Name)] = former
		}
		mtu, mac := r.linksOf(ctx, bridge)
		status.PhysicalNetworks = append(status.PhysicalNetworks, desired.PhysicalStatus(p.Name, bridge, mtu, mac, err))
		if err == nil {
			r.physical.bridges[string(p.Name)] = bridge
			continue
		}
		reason = cmp.Or(reason, reasonOfPhysical(err))
		failed = errors.Join(failed, fmt.Errorf("physical network %s: %w", p.Name, err))
	}
	if err := r.mapBridges(ctx, ids, desired.MappedBridge(ids)); err != nil {
		return desired.ReasonOf(ovndb.IsPending(err)), errors.Join(err, failed)
	}
	if err := r.releasePhysical(spec); err != nil {
		return cmp.Or(reason, networkv1alpha1.ReasonHostError), errors.Join(failed, err)
	}
	return reason, failed
}

// formerBridge returns the bridge that the agent has mapped a physical network to, if the spec wants another link or bridge now. The
// pods of the node keep it until the node has the other one.
func (r *Gateway) formerBridge(ids, foreign map[string]string, p networkv1alpha1.NodePhysicalNetwork) (former string, ok bool) {
	former = desired.BridgeTo(ids, string(p.Name))
	if _, taken := foreign[string(p.Name)]; taken || former == "" || former == cmp.Or(p.Bridge, uplink.BridgeName(p.Link)) {
		return "", false
	}
	_, ok = ovndb.Find(r.OVS.Conn, &vswitchdb.Bridge{Name: former})
	return former, ok
}

// ReportGatewayNetwork adds the gateway's bridge to the status' physical networks. It must be called after Apply.
func (r *Gateway) ReportGatewayNetwork(ctx context.Context, status *networkv1alpha1.NodeNetworkStatus) {
	shared := networkv1alpha1.GatewayPhysicalNetwork
	status.PhysicalNetworks = slices.DeleteFunc(slices.Clone(status.PhysicalNetworks),
		func(s networkv1alpha1.NodePhysicalNetworkStatus) bool { return s.Name == shared })
	if status.Gateway != nil && status.Gateway.Bridge != "" {
		bridge := status.Gateway.Bridge
		mtu, mac := r.linksOf(ctx, bridge)
		status.PhysicalNetworks = append(status.PhysicalNetworks, desired.PhysicalStatus(shared, bridge, mtu, mac, nil))
	}
}

// linksOf returns the smallest MTU of a bridge's links that lead outside, in bytes, and the MAC of the bridge's own link. They are 0 and
// empty if none is known.
func (r *Gateway) linksOf(ctx context.Context, bridge string) (smallest int, mac string) {
	row, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Bridge{Name: bridge})
	if !ok {
		return 0, ""
	}
	interfaces, err := r.interfacesOf(ctx, row)
	if err != nil {
		return 0, "" // the bridge's next change enqueues another reconciliation
	}
	for _, i := range interfaces {
		if i.Name == bridge && i.MACInUse != nil {
			mac = *i.MACInUse
		}
		if i.MTU != nil && i.Name != bridge && leadsOutside(i) && (smallest == 0 || *i.MTU < smallest) {
			smallest = *i.MTU
		}
	}
	return smallest, mac
}

// mapBridges writes ovn-bridge-mappings: the gateway's bridge, which may be empty, and the physical networks' bridges.
// ids are the present external_ids of Open_vSwitch. They may lack the last write, which mapped completes.
func (r *Gateway) mapBridges(ctx context.Context, ids map[string]string, gateway string) error {
	want := desired.BridgeMapping(ids, gateway, r.physical.bridges, r.physical.mapped...)
	foreign := desired.ForeignMappings(ids, r.physical.mapped...)
	r.physical.mapped = slices.DeleteFunc(slices.Collect(maps.Keys(r.physical.bridges)), func(network string) bool {
		_, taken := foreign[network]
		return taken
	})
	return r.OVS.Apply(ctx, want)
}

// watchPhysical makes changes of the physical networks' links enqueue the node.
func (r *Gateway) watchPhysical(spec networkv1alpha1.NodeNetworkSpec) {
	var named []string
	for _, p := range spec.PhysicalNetworks {
		if p.Link != "" {
			named = append(named, p.Link, uplink.BridgeName(p.Link))
		}
	}
	r.physical.links.Store(named)
}

// connect returns the bridge that leads to a physical network. It moves the network's link onto one first.
func (r *Gateway) connect(node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, gateway *networkv1alpha1.NodeGatewayStatus,
	p networkv1alpha1.NodePhysicalNetwork) (string, error) {
	if p.Bridge != "" {
		row, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Bridge{Name: p.Bridge})
		if !ok {
			return "", fmt.Errorf("bridge %s: %w", p.Bridge, errNoSwitch)
		}
		return p.Bridge, r.checkDatapath(row)
	}
	bridge, err := r.connectLink(node, spec, gateway, p.Link)
	if err != nil {
		return "", fmt.Errorf("link %s: %w", p.Link, err)
	}
	return bridge, nil
}

func (r *Gateway) connectLink(node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, gateway *networkv1alpha1.NodeGatewayStatus,
	link string) (string, error) {
	switch {
	case r.isGateways(spec, gateway, link):
		return "", fmt.Errorf("%w: it is the gateway's: Localnet Networks reach it as physicalNetwork %s, which needs no entry",
			uplink.ErrRefused, networkv1alpha1.GatewayPhysicalNetwork)
	case !hostnet.Exists(link):
		return "", errNoLink
	case r.uplinks.mover == nil:
		return "", fmt.Errorf("%w: this agent moves no links: name a bridge instead", uplink.ErrRefused)
	}
	for _, b := range r.uplinks.bridges() {
		if b.Interface == link && r.isWhole(b) {
			return b.Name, nil
		}
	}
	if r.uplinks.isAway(link) {
		if err := r.switchAway(); err != nil {
			return "", err
		}
	}
	req := r.uplinkRequest(node, spec, link)
	req.Uplink, req.Physical, req.NextHops = networkv1alpha1.UplinkBridge, true, nil
	return "", r.uplinks.ensure(r.Running, req)
}

// isGateways reports whether a link leads outside for the gateway or for the host.
func (r *Gateway) isGateways(spec networkv1alpha1.NodeNetworkSpec, gateway *networkv1alpha1.NodeGatewayStatus, link string) bool {
	if link == spec.Gateway.Interface || gateway != nil && link == gateway.Interface {
		return true
	}
	outside, err := hostnet.OutsideOf(spec.Gateway.Interface)
	return err == nil && (link == outside.Name || link == r.uplinks.linkOf(outside.Name))
}

// isWhole reports whether a moved link is still an open port of its bridge, which has the addresses of the link.
func (r *Gateway) isWhole(b uplink.Bridge) bool {
	_, isBridge := ovndb.Get[vswitchdb.Bridge](r.OVS.Conn, desired.UplinkBridgeUUID(b.Name))
	_, isPort := ovndb.Get[vswitchdb.Port](r.OVS.Conn, desired.UplinkPortUUID(b.Name, b.Interface))
	if !isBridge || !isPort || len(b.Addresses) == 0 {
		return isBridge && isPort
	}
	return hostnet.HasAddress(b.Name)
}

// releasePhysical restores the links that were moved for physical networks that the spec no longer has, and whose bridge no physical
// network keeps.
func (r *Gateway) releasePhysical(spec networkv1alpha1.NodeNetworkSpec) error {
	if r.uplinks.mover == nil {
		return nil
	}
	ledgers, err := r.uplinks.mover.Ledgers()
	for _, l := range ledgers {
		used := func(p networkv1alpha1.NodePhysicalNetwork) bool { return p.Link == l.Snapshot.Link }
		kept := slices.Contains(slices.Collect(maps.Values(r.physical.bridges)), uplink.BridgeName(l.Snapshot.Link))
		if !l.Target.Physical || kept || slices.ContainsFunc(spec.PhysicalNetworks, used) {
			continue
		}
		outcome := r.uplinks.attempt("give back "+l.Snapshot.Link, func() error {
			return r.uplinks.mover.GiveBack(r.Running, l.Snapshot.Link)
		})
		if !errors.Is(outcome, errMoving) {
			err = errors.Join(err, fmt.Errorf("link %s is not restored: %w", l.Snapshot.Link, outcome))
		}
	}
	return err
}

// reasonOfPhysical returns the condition's reason while a physical network is not connected.
func reasonOfPhysical(err error) string {
	if reason := reasonOfOutside(err); reason != networkv1alpha1.ReasonNoUplink {
		return reason
	}
	return networkv1alpha1.ReasonPhysicalNetworkMissing
}
