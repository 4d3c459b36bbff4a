package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/agent/repairs"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// applyShared shares the bridge between the gateway router and the host. The flows come before the mapping, which makes
// ovn-controller connect the router. The mapping comes before the status, from which the operator builds the router.
func (r *Gateway) applyShared(ctx context.Context, w way, ids map[string]string,
	status *networkv1alpha1.NodeNetworkStatus) (string, error) {
	bridge, spec, found := w.bridge, w.spec, w.found
	facts, of := r.externalFacts(bridge, spec, found), r.outside.bridge(bridge.name)
	flows, object := facts.Flows(), flowsOf(bridge.name)
	changed, err := of.Apply(flows)
	r.Repairs.Note(object, flows, changed, err)
	if errors.Is(err, openflow.ErrAbsent) {
		return networkv1alpha1.ReasonDatabaseUnavailable, err
	} else if err != nil {
		return networkv1alpha1.ReasonHostError, fmt.Errorf("bridge %s: %w", bridge.name, err)
	}
	of.Follow(r.Running, func() { r.Repairs.Changed(object, "") }, func(err error) {
		ctrl.Log.WithName("gateway").Info("cannot follow the bridge's flows; comparing them again in a minute",
			"bridge", bridge.name, "reason", err.Error())
		r.uplinks.later()
	})
	if reason, err := r.leaveBridge(ctx, ids, bridge.name); err != nil {
		return reason, err
	}
	if err := r.forwardShared(spec, w.link.Name, facts); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	if err := errors.Join(r.endAnswers(ctx, nil), r.removeEgress(ctx)); err != nil { // of Local mode
		return networkv1alpha1.ReasonHostError, err
	}
	r.outside.further.Store([]string(nil))
	found.Bridge, found.Interface = bridge.name, bridge.nic
	status.Gateway = &found
	if err := r.giveBack(spec.Gateway); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	if err := r.relayTooBig(bridge, found); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	if bridge.patch == 0 {
		return networkv1alpha1.ReasonWaitingForTopology,
			fmt.Errorf("ovn-controller has not connected bridge %s with the node's gateway router", bridge.name)
	}
	if err := r.announce(ctx, bridge, string(found.MACAddress), facts.Addresses); err != nil {
		return networkv1alpha1.ReasonHostError, err
	}
	return "", nil
}

// flowsOf returns a bridge's flows as an object of repairs.
func flowsOf(bridge string) repairs.Object {
	return repairs.Object{Kind: repairs.Flows, Name: "the flows of bridge " + bridge}
}

// forwardShared lets the host forward packets from outside if a frontend needs that.
func (r *Gateway) forwardShared(spec networkv1alpha1.NodeNetworkSpec, linkName string, facts desired.ExternalBridge) error {
	r.outside.forwards = false
	if isApart(spec.Gateway) {
		return r.forwardApart(spec)
	}
	for _, l := range r.addresses.Links {
		// The host serves ports at addresses that the gateway router does not have.
		serves := func(f desired.Frontend) bool { return f.ServedByHostAt(l.Address) }
		if slices.Contains(facts.Addresses, l.Address) || !slices.ContainsFunc(facts.Frontends, serves) {
			continue
		}
		family := hostnet.Families{IPv4: l.Address.Is4(), IPv6: l.Address.Is6()}
		if err := errors.Join(r.forward(l.Link, family), r.forward(linkName, family)); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(facts.Frontends, func(f desired.Frontend) bool { return f.ForwardsOutside(facts.Addresses) }) {
		return r.forward(linkName, families(spec))
	}
	return nil
}

// forwardApart lets the host serve clients over links that the gateway router does not use.
func (r *Gateway) forwardApart(spec networkv1alpha1.NodeNetworkSpec) error {
	link, err := hostnet.OutsideOf("")
	if errors.Is(err, hostnet.ErrNoDefaultRoute) {
		return nil // no clients come over other links
	} else if err != nil {
		return err
	}
	return r.forward(link.Name, families(spec))
}

// forward lets the host forward.
func (r *Gateway) forward(linkName string, of hostnet.Families) error {
	r.outside.forwards = true
	wrote, err := hostnet.Forward(linkName, of)
	object := repairs.Object{Kind: repairs.Sysctls, Name: "the sysctls of forwarding, and accept_ra of " + linkName}
	r.Repairs.Note(object, of, wrote, err)
	return err
}

// externalFacts returns the facts from which the bridge's flows are computed.
func (r *Gateway) externalFacts(
	bridge externalBridge, spec networkv1alpha1.NodeNetworkSpec, found networkv1alpha1.NodeGatewayStatus,
) desired.ExternalBridge {
	facts := desired.ExternalBridge{
		Alone: isApart(spec.Gateway), Userspace: r.Datapath == networkv1alpha1.DatapathNetdev, Physical: bridge.physical,
		Patch: bridge.patch, MAC: string(found.MACAddress), Addresses: gatewayAddresses(found),
		Services: desired.Prefixes(spec.ServiceSubnets),
	}
	facts.Ports = slices.DeleteFunc(slices.Clone(facts.Addresses), func(a netip.Addr) bool {
		return !slices.Contains(r.addresses.Ports, a)
	})
	facts.Reserved = r.reserved(spec)
	facts.Frontends, facts.Translated = r.frontends(facts.Reserved), desired.Translated(r.outside.bindings)
	facts.Routed, facts.Watched = desired.Routed(r.outside.bindings), desired.Watched(r.outside.bindings)
	attached := desired.Translated(r.attached(r.outside.bindings))
	facts.Silent = slices.DeleteFunc(slices.Clone(facts.Translated), func(a netip.Addr) bool { return slices.Contains(attached, a) })
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
		former.Close()
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
