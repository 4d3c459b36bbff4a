package facts

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
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

// linkAddresses returns the addresses that a node's agent reports for the link outside.
func linkAddresses(nn *networkv1alpha1.NodeNetwork) (found []HostAddress) {
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
	field string
	cidr  netip.Prefix
}

const (
	clusterField, serviceField, joinField = "clusterNetwork", "serviceNetwork", "joinSubnet"
	// waiting is the prefix of the message of a network that is held because of another.
	waiting = "waits: "
)

func (n specNetwork) String() string { return n.field + " " + n.cidr.String() }

// networks lists the networks of the plan, clusterNetwork first.
func (p Plan) networks() (found []specNetwork) {
	for _, cluster := range p.Clusters {
		found = append(found, specNetwork{clusterField, cluster.CIDR})
	}
	for _, service := range p.Services {
		found = append(found, specNetwork{serviceField, service})
	}
	for _, join := range p.joinSubnets() {
		found = append(found, specNetwork{joinField, join})
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
		field string
		cidrs []networkv1alpha1.CIDR
	}{{clusterField, nn.Spec.ClusterSubnets}, {serviceField, nn.Spec.ServiceSubnets}} {
		for _, cidr := range list.cidrs {
			if prefix, err := cidr.Prefix(); err == nil {
				own = append(own, specNetwork{list.field, prefix})
			}
		}
	}
	for _, join := range nn.Spec.JoinAddresses {
		if prefix, err := join.Prefix(); err == nil {
			own = append(own, specNetwork{joinField, prefix.Masked()})
		}
	}
	for _, n := range own {
		if text := n.overlap(hosts); text != "" {
			return text
		}
	}
	return ""
}

// JudgeNetworks computes status.networks from the plan of the whole spec. A network that is in force stays in force,
// and so does a network that a node already uses, even if it overlaps. While no network is in force, an overlap holds
// all of them. Later an overlap holds the overlapping entry of clusterNetwork and the entries behind it. Without a
// Node the previous states stay, because there is nothing to compare with.
func JudgeNetworks(cn *networkv1alpha1.ClusterNetwork, plan Plan, nodes []corev1.Node, networks []networkv1alpha1.NodeNetwork,
	hosts []HostAddress) []networkv1alpha1.NetworkStatus {
	former := cn.Status.Networks
	if len(nodes) == 0 {
		return former
	}
	all, used := plan.networks(), usedNetworks(networks)
	inForce := map[netip.Prefix]bool{}
	for _, n := range all {
		if stateOf(former, n.cidr) == networkv1alpha1.NetworkInForce || used(n) {
			inForce[n.cidr] = true
		}
	}
	first := len(inForce) == 0
	held := ""
	if first {
		held = plan.Overlap(hosts)
	}
	states := make([]networkv1alpha1.NetworkStatus, 0, len(all))
	for _, n := range all {
		state := networkv1alpha1.NetworkStatus{CIDR: asInSpec(cn.Spec, n.cidr), State: networkv1alpha1.NetworkInForce}
		if text := n.overlap(hosts); !inForce[n.cidr] && (text != "" || held != "" && (first || n.field == clusterField)) {
			state.State, state.Message = networkv1alpha1.NetworkHeld, cmp.Or(text, waiting+held)
			held = cmp.Or(held, text)
		}
		states = append(states, state)
	}
	return states
}

// asInSpec returns a network in the spelling of the spec, because the CRD's rules compare texts.
func asInSpec(spec networkv1alpha1.ClusterNetworkSpec, cidr netip.Prefix) networkv1alpha1.CIDR {
	texts := slices.Concat(spec.ServiceNetwork, spec.JoinSubnet)
	for _, entry := range spec.ClusterNetwork {
		texts = append(texts, entry.CIDR)
	}
	for _, text := range texts {
		if prefix, err := text.Prefix(); err == nil && prefix == cidr {
			return text
		}
	}
	return networkv1alpha1.CIDR(cidr.String())
}

// usedNetworks returns a function that reports whether a node uses a part of a network.
func usedNetworks(networks []networkv1alpha1.NodeNetwork) func(specNetwork) bool {
	used := map[string]bool{}
	for i := range networks {
		spec := &networks[i].Spec
		if len(spec.PodSubnets) == 0 {
			continue
		}
		for _, cidr := range slices.Concat(spec.ClusterSubnets, spec.ServiceSubnets) {
			used[string(cidr)] = true
		}
		for _, join := range spec.JoinAddresses {
			if prefix, err := join.Prefix(); err == nil {
				used[prefix.Masked().String()] = true
			}
		}
	}
	return func(n specNetwork) bool { return used[n.cidr.String()] }
}

func stateOf(states []networkv1alpha1.NetworkStatus, cidr netip.Prefix) networkv1alpha1.NetworkState {
	for _, s := range states {
		if prefix, err := s.CIDR.Prefix(); err == nil && prefix == cidr {
			return s.State
		}
	}
	return ""
}

// PlanInForce returns the part of a ClusterNetwork's spec that nodes may use, by status.networks. Before the networks
// are judged it returns the whole spec, Pending. The error is a HeldError if no entry of clusterNetwork is in force,
// and otherwise ParseClusterNetwork's.
func PlanInForce(cn *networkv1alpha1.ClusterNetwork) (Plan, error) {
	plan, err := ParseClusterNetwork(cn)
	if err != nil {
		return plan, err
	}
	if len(cn.Status.Networks) == 0 {
		plan.Pending = true
		return plan, nil
	}
	held := func(cidr netip.Prefix) bool {
		return stateOf(cn.Status.Networks, cidr) != networkv1alpha1.NetworkInForce
	}
	plan.Clusters = slices.DeleteFunc(plan.Clusters, func(cluster ipam.Network) bool { return held(cluster.CIDR) })
	plan.Services = slices.DeleteFunc(plan.Services, held)
	plan.Join = slices.DeleteFunc(plan.Join, held)
	if len(plan.Clusters) == 0 {
		return Plan{}, &HeldError{HeldNetworks(cn.Status.Networks)}
	}
	return plan, nil
}

// HeldNetworks explains which networks are held, or returns "".
func HeldNetworks(states []networkv1alpha1.NetworkStatus) string {
	for _, s := range states {
		if s.State == networkv1alpha1.NetworkHeld {
			return strings.TrimPrefix(s.Message, waiting)
		}
	}
	return ""
}
