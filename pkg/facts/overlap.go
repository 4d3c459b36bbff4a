package facts

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// HeldError explains why no network of a ClusterNetwork is in force.
type HeldError struct{ Message string }

func (e *HeldError) Error() string { return e.Message }

// HostAddress is an address that no network of a ClusterNetwork may contain.
type HostAddress struct {
	Address netip.Addr
	Of      string // "an address of node n1"
}

// HostAddresses returns the addresses of nodes, of their gateways' links and next hops, and of API servers, sorted.
// It ignores a NodeNetwork without a Node.
func HostAddresses(nodes []corev1.Node, networks []networkv1alpha1.NodeNetwork, apiServers []discoveryv1.EndpointSlice) []HostAddress {
	var found []HostAddress
	names := make(map[string]bool, len(nodes))
	for i := range nodes {
		names[nodes[i].Name] = true
		for _, address := range InternalIPs(&nodes[i]) {
			found = append(found, HostAddress{address, "an address of node " + nodes[i].Name})
		}
	}
	for i := range networks {
		if names[networks[i].Name] {
			found = append(found, linkAddresses(&networks[i])...)
		}
	}
	for i := range apiServers {
		for _, endpoint := range apiServers[i].Endpoints {
			for _, text := range endpoint.Addresses {
				if address, err := netip.ParseAddr(text); err == nil {
					found = append(found, HostAddress{address, "an address of the API server"})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b HostAddress) int { return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Of, b.Of)) })
	return found
}

// linkAddresses returns the addresses that a node's agent reports: of its tunnels, if they are in
// spec.encapsulation.networks, and of the link outside.
func linkAddresses(nn *networkv1alpha1.NodeNetwork) (found []HostAddress) {
	if len(nn.Spec.Encapsulation.Networks) > 0 {
		for _, text := range append([]networkv1alpha1.IP{nn.Status.EncapIP}, nn.Status.FurtherEncapIPs...) {
			if address, err := text.Addr(); err == nil {
				found = append(found, HostAddress{address, "an address of the tunnels of node " + nn.Name})
			}
		}
	}
	for _, address := range GatewayAddresses(nn) {
		found = append(found, HostAddress{address, "an address of the link outside of node " + nn.Name})
	}
	if nn.Status.Gateway == nil {
		return found
	}
	for _, text := range nn.Status.Gateway.NextHops {
		if hop, err := text.Addr(); err == nil {
			found = append(found, HostAddress{hop, "the next hop of node " + nn.Name})
		}
	}
	return found
}

// specNetwork is a network of a ClusterNetwork's spec.
type specNetwork struct {
	field networkv1alpha1.NetworkField
	cidr  netip.Prefix
}

func (n specNetwork) String() string { return string(n.field) + " " + n.cidr.String() }

// networks lists the networks of the plan, clusterNetwork first.
func (p Plan) networks() (found []specNetwork) {
	for _, cluster := range p.PodNetworks() {
		found = append(found, specNetwork{networkv1alpha1.FieldClusterNetwork, cluster})
	}
	for _, service := range p.Services {
		found = append(found, specNetwork{networkv1alpha1.FieldServiceNetwork, service})
	}
	for _, join := range p.joinSubnets() {
		found = append(found, specNetwork{networkv1alpha1.FieldJoinSubnet, join})
	}
	return found
}

// overlap returns which of the addresses a network contains, or "".
func (n specNetwork) overlap(hosts []HostAddress) string {
	for _, host := range hosts {
		if n.cidr.Contains(host.Address) {
			return fmt.Sprintf("%s contains %s, %s", n, host.Address, host.Of)
		}
	}
	return ""
}

// Overlap returns which address a network of the plan contains, or "".
func (p Plan) Overlap(hosts []HostAddress) string {
	for _, n := range p.networks() {
		if text := n.overlap(hosts); text != "" {
			return text
		}
	}
	return ""
}

// OverlapOfNode returns which InternalIP of a node a network of the plan contains, or "".
func (p Plan) OverlapOfNode(node *corev1.Node) string {
	return p.Overlap(HostAddresses([]corev1.Node{*node}, nil, nil))
}

// OverlapOfGateway returns which address of the node's link outside, or which next hop, is in a network of the
// NodeNetwork, or "".
func OverlapOfGateway(nn *networkv1alpha1.NodeNetwork) string {
	hosts := linkAddresses(nn)
	var own []specNetwork
	for _, list := range []struct {
		field networkv1alpha1.NetworkField
		cidrs []networkv1alpha1.CIDR
	}{{networkv1alpha1.FieldClusterNetwork, nn.Spec.ClusterSubnets}, {networkv1alpha1.FieldServiceNetwork, nn.Spec.ServiceSubnets}} {
		for _, cidr := range list.cidrs {
			if prefix, err := cidr.Prefix(); err == nil {
				own = append(own, specNetwork{list.field, prefix})
			}
		}
	}
	for _, join := range nn.Spec.JoinAddresses {
		if prefix, err := join.Prefix(); err == nil {
			own = append(own, specNetwork{networkv1alpha1.FieldJoinSubnet, prefix.Masked()})
		}
	}
	for _, n := range own {
		if text := n.overlap(hosts); text != "" {
			return text
		}
	}
	return ""
}
