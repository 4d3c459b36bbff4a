package gateway

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// way is a connection to the outside that the host has.
type way struct {
	spec   networkv1alpha1.NodeNetworkSpec // its gateway has the settings that lead to this way
	bridge externalBridge                  // in Shared mode
	link   desired.Link
	found  networkv1alpha1.NodeGatewayStatus
}

// errNextHop means that a next hop of spec is not used.
var errNextHop = errors.New("it is not used, and the node keeps its former next hop or that of its default route")

// choose returns the way outside of spec's gateway. While the host does not have that, choose returns the way of the reported
// gateway, so that neither a wrong value nor the wait for the node's turn interrupts anything. refused says what of spec is not
// in effect. ok is false if the host has neither way.
func (r *Gateway) choose(ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, ids map[string]string,
	reported *networkv1alpha1.NodeGatewayStatus) (w way, ok bool, refused error) {
	r.outside.wanted.Store(spec.Gateway.Interface)
	w, unusable, err := r.find(ctx, node, spec, reported)
	if err == nil && unusable == nil && reported != nil {
		err = r.hops.compare(ctx, w, *reported, r.uplinks.later)
	}
	if err == nil && unusable != nil {
		return w, true, fmt.Errorf("%w: %w", unusable, errNextHop)
	}
	if err == nil {
		return w, true, nil
	}
	former, known := r.former(spec.Gateway, ids, reported)
	if !known || errors.Is(err, errGivesBack) {
		return w, false, err
	}
	before := spec
	before.Gateway = former
	kept, _, gone := r.find(ctx, node, before, reported)
	if gone != nil {
		return w, false, err
	}
	field := fieldOf(spec.Gateway)
	if errors.Is(err, errSilent) && len(spec.Gateway.NextHops) > 0 {
		field = "nextHops"
	}
	return kept, true, fmt.Errorf("spec.gateway.%s: %w; until then the node keeps its former gateway, in mode %s on link %s",
		field, err, former.Mode, kept.link.Name)
}

// find returns the way outside of spec's gateway. unusable names next hops of spec that the link does not reach.
func (r *Gateway) find(ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec,
	reported *networkv1alpha1.NodeGatewayStatus) (w way, unusable, err error) {
	w.spec = spec
	switch spec.Gateway.Interface {
	case names.IntegrationBridge, names.ManagementInterface, names.EgressInterface:
		return w, nil, fmt.Errorf("%w: %s is Weft's own link and does not lead outside", uplink.ErrRefused, spec.Gateway.Interface)
	}
	if spec.Gateway.Mode == networkv1alpha1.GatewayLocal {
		w.link, err = hostnet.OutsideOf(spec.Gateway.Interface)
	} else {
		w.bridge, w.link, err = r.findOutside(ctx, node, spec)
	}
	if err != nil {
		return w, nil, err
	}
	r.outside.link.Store(w.link.Name)
	var hops []networkv1alpha1.IP
	preferred := desired.InternalIPs(node)
	if reported != nil { // another address that comes to the link does not move the gateway
		hops, preferred = reported.NextHops, append(preferred, gatewayAddresses(*reported)...)
	}
	w.found, unusable, err = desired.Gateway(spec.Gateway, w.link, preferred, hops)
	return w, unusable, err
}

// former returns the settings of the gateway that the node has: the reported one, or else the bridge that is mapped in ids, the
// external_ids of Open_vSwitch, because someone may have recreated the NodeNetwork.
func (r *Gateway) former(spec networkv1alpha1.NodeGateway, ids map[string]string, reported *networkv1alpha1.NodeGatewayStatus) (
	former networkv1alpha1.NodeGateway, known bool) {
	if reported != nil {
		link := reported.Interface
		if !hostnet.Exists(link) { // it is a card that Open vSwitch drives itself
			link = reported.Bridge
		}
		return desired.FormerGateway(spec, *reported, link), true
	}
	mapped := desired.MappedBridge(ids)
	status := networkv1alpha1.NodeGatewayStatus{Mode: networkv1alpha1.GatewayShared, Uplink: networkv1alpha1.UplinkBridge}
	if r.uplinks.isAlone(mapped) {
		status.Uplink = networkv1alpha1.UplinkInterface
	}
	return desired.FormerGateway(spec, status, mapped), mapped != ""
}

// follow makes the node use a way outside.
func (r *Gateway) follow(ctx context.Context, w way, ids map[string]string,
	status *networkv1alpha1.NodeNetworkStatus) (string, error) {
	r.effective = w.spec.Gateway
	if w.spec.Gateway.Mode == networkv1alpha1.GatewayLocal {
		return r.applyLocal(ctx, w, ids, status)
	}
	return r.applyShared(ctx, w, ids, status)
}

// fieldOf returns the field of a gateway that chooses its link.
func fieldOf(gateway networkv1alpha1.NodeGateway) string {
	switch {
	case gateway.Interface != "":
		return "interface"
	case isApart(gateway):
		return "uplink"
	}
	return "mode"
}

// isUnderWay reports whether a link is on its way to or from a bridge, so that its addresses are missing for a moment only.
func isUnderWay(err error) bool {
	away := errors.Is(err, errDatabaseAway) || errors.Is(err, errSwitchAway)
	return (away || errors.Is(err, errMoving)) && !errors.Is(err, errGivesBack)
}
