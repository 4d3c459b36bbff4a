package gateway

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// applyRules writes the host's nftables table.
func (r *Gateway) applyRules(
	ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec, gateway *networkv1alpha1.NodeGatewayStatus,
) error {
	rules := desired.HostRules{
		Mode: spec.Gateway.Mode, SNAT: spec.Gateway.SNAT, Addresses: desired.InternalIPs(node),
		Pods: desired.Prefixes(spec.ClusterSubnets), Apart: isApart(spec.Gateway),
		Egress: spec.Gateway.Mode == networkv1alpha1.GatewayLocal && r.outside.leadsThroughPort(),
	}
	if gateway != nil {
		rules.Addresses = append(rules.Addresses, gatewayAddresses(*gateway)...)
	}
	rules.Reserved = r.reserved(spec, rules.Addresses)
	r.outside.reserved.Store(&rules.Reserved)
	rules.Frontends = r.frontends(rules.Reserved)
	if _, err := r.outside.table.Apply(ctx, rules.Table()); err != nil {
		return err
	}
	if rules.Loopback() { // after the table, which protects what this opens
		if err := hostnet.RouteLoopback(names.ManagementInterface); err != nil {
			return err
		}
	}
	udp, err := rules.UDP(), error(nil)
	if r.outside.udp == nil { // after its start, the agent has no earlier translations to compare with
		err = hostnet.ForgetOtherUDP(udp)
	} else {
		err = hostnet.ForgetUDP(desired.Changed(r.outside.udp, udp))
	}
	if err == nil {
		r.outside.udp = udp
	}
	return err
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
