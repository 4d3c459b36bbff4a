package gateway

import (
	"context"
	"errors"
	"net/netip"

	ctrl "sigs.k8s.io/controller-runtime"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/nftables"
	"github.com/weft-network/weft/pkg/agent/repairs"
	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// What is repaired: the host's nftables tables, the guards of pods' interfaces, and rules in the chain of iptables.
var (
	nftTable    = repairs.Object{Kind: repairs.Nftables, Name: "table inet " + nftables.Name + " of nftables"}
	tunnelTable = repairs.Object{Kind: repairs.Nftables, Name: "table inet " + nftables.Tunnels + " of nftables"}
	guardTable  = repairs.Object{Kind: repairs.Nftables, Name: "table netdev " + cni.GuardTable + " of nftables"}
	acceptRules = repairs.Object{Kind: repairs.Firewall, Name: "the rules that let pods pass chain FORWARD of iptables"}
)

// applyRules writes the host's nftables table.
func (r *Gateway) applyRules(ctx context.Context, spec networkv1alpha1.NodeNetworkSpec) error {
	rules := desired.HostRules{
		Mode: spec.Gateway.Mode, SNAT: spec.Gateway.SNAT, Addresses: r.addresses, Pods: desired.Prefixes(spec.ClusterSubnets),
		Services: desired.Prefixes(spec.ServiceSubnets), Subnets: desired.Prefixes(spec.PodSubnets),
		Egress:   spec.Gateway.Mode == networkv1alpha1.GatewayLocal && r.outside.leadsThroughPort(),
		Forwards: r.outside.forwards, Router: desired.RouterMAC(spec),
	}
	rules.Reserved = r.reserved(spec)
	r.outside.reserved.Store(&rules.Reserved)
	rules.Frontends = r.frontends(rules.Reserved)
	table := rules.Table()
	changed, err := r.outside.table.Apply(ctx, table)
	r.Repairs.Note(nftTable, table, changed, err)
	if err != nil {
		return err
	}
	if err := r.applyFirewall(rules.Forwarding()); err != nil {
		return err
	}
	if rules.Loopback() { // after the table, which protects what this opens
		wrote, err := hostnet.RouteLoopback(names.ManagementInterface)
		r.Repairs.Note(repairs.Object{Kind: repairs.Sysctls, Name: "route_localnet of " + names.ManagementInterface}, true, wrote, err)
		if err != nil {
			return err
		}
	}
	udp := rules.UDP()
	if r.outside.udp == nil { // after its start, the agent has no earlier translations to compare with
		if err := hostnet.ForgetUDP(udp); err != nil {
			return err
		}
	} else {
		r.Services.stale.add(desired.StaleWays(desired.Changed(r.outside.udp, udp), r.outside.udp, udp))
	}
	r.outside.udp = udp
	return nil
}

// GuardTunnels keeps tunnels' packets from leaving or entering the host in the clear while encryption is required. It needs nothing that
// Apply waits for. The kernel does not see the tunnels of the userspace datapath.
func (r *Gateway) GuardTunnels(ctx context.Context, protection networkv1alpha1.TunnelProtection) error {
	if protection != networkv1alpha1.ProtectionRequired || r.Datapath != networkv1alpha1.DatapathSystem {
		err := r.outside.tunnels.Remove(ctx)
		r.Repairs.Note(tunnelTable, desired.NftTable{}, false, err)
		return err
	}
	table := desired.TunnelGuard()
	changed, err := r.outside.tunnels.Apply(ctx, table)
	r.Repairs.Note(tunnelTable, table, changed, err)
	return err
}

// applyFirewall lets packets of pods pass the host's firewalls.
func (r *Gateway) applyFirewall(want desired.Forwarding) error {
	outcome, err := r.outside.firewall.Apply(want)
	r.Repairs.Note(acceptRules, outcome.Rules, outcome.Changed, err)
	r.outside.drops = outcome.Drops
	return err
}

// applyGuards restores the guards of pods' interfaces and moved links, which only the userspace datapath has.
func (r *Gateway) applyGuards() error {
	if r.Datapath != networkv1alpha1.DatapathNetdev || !r.Attachments.Ready() {
		return nil
	}
	changed, err := r.outside.guards.Apply(r.reguard)
	if errors.Is(err, uplink.ErrBusy) {
		return nil // the end of the move enqueues the node
	}
	r.Repairs.Note(guardTable, true, changed, err)
	return err
}

func (r *Gateway) reguard() (changed bool, err error) {
	var devices []string
	for _, a := range r.Attachments.All() {
		devices = append(devices, a.HostName)
	}
	if changed, err = cni.Reguard(devices); err != nil || r.uplinks.mover == nil {
		return changed, err
	}
	moved, err := r.uplinks.mover.Reguard()
	return changed || moved, err
}

// WatchRules enqueues the node when another program changes the host's nftables tables, or what a firewall of the host does with
// forwarded packets. It returns when ctx ends.
func (r *Gateway) WatchRules(ctx context.Context) error {
	return nftables.Watch(ctx, ctrl.Log.WithName("nftables"),
		nftables.Watched{Object: &r.outside.table, Changed: func(process string) { r.Repairs.Changed(nftTable, process) }},
		nftables.Watched{Object: &r.outside.tunnels, Changed: func(process string) { r.Repairs.Changed(tunnelTable, process) }},
		nftables.Watched{Object: r.outside.guards, Changed: func(process string) { r.Repairs.Changed(guardTable, process) }},
		nftables.Watched{Object: &r.outside.firewall, Changed: func(process string) { r.Repairs.Changed(acceptRules, process) }})
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
