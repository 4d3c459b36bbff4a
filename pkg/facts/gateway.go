package facts

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

// Gateway holds the facts for topology.GatewayUnit.
type Gateway struct {
	Node Node
	// TopologyZone is the zone of the node for hints of EndpointSlices.
	TopologyZone string
	Mode         networkv1alpha1.GatewayMode
	// Bridge is the node's Open vSwitch bridge that leads outside. MAC and Addresses, with the length of their
	// subnets, belong to the gateway router there. They are set in Shared mode only, except that Addresses are the
	// node's own in Local mode.
	Bridge    string
	MAC       net.HardwareAddr
	Addresses []netip.Prefix
	// Answers means that the host can answer for addresses of others, in Local mode.
	Answers bool
	// Carries means that the node may carry egress IPs. Leaving means that Services are the source of their pods, so that a
	// node that answers for an address needs a router.
	Carries, Leaving bool
	// Further are the host's addresses on its other links, in Local mode.
	Further []netip.Prefix
	// NextHops are the routers outside.
	NextHops []netip.Addr
	// Join holds the gateway router's addresses on the join switch, Clusters the CIDRs of all pods.
	Join, Clusters []netip.Prefix
	// SNAT translates the source of pods' packets to the router's address.
	SNAT bool
	// Routed leaves pods with routers of their own out of SNAT. RoutedPods are such pods on this node, if routers are watched.
	Routed     bool
	RoutedPods []RoutedPod
	// MTU is that of pods, in bytes. It is 0 until it is computed.
	MTU int
	// Alone means that only OVN uses the link outside, so that the gateway router's addresses are not the host's.
	Alone bool
	// Elsewhere, Transit and Far are set if the node is in another zone: see CarriedAddress.
	Elsewhere    bool
	Transit, Far []netip.Addr
	// HostAddresses are reached through the management port. They include Addresses unless only OVN uses the link.
	HostAddresses []netip.Addr
	// OtherAddresses are all other addresses of the host. Only pods of the node reach them through the management port.
	OtherAddresses []netip.Addr
	// Ports are the addresses of Addresses and HostAddresses at which node ports and host ports may be served.
	Ports []netip.Addr
}

// NodeGateway returns the part of the ClusterNetwork's gateway that applies to a node with these labels. An
// unreadable selector is an error that names its field.
func NodeGateway(gateway networkv1alpha1.Gateway, node labels.Set) (networkv1alpha1.NodeGateway, error) {
	result := networkv1alpha1.NodeGateway{Mode: cmp.Or(gateway.Mode, networkv1alpha1.GatewayShared),
		Uplink:    cmp.Or(gateway.Uplink, networkv1alpha1.UplinkBridge),
		Interface: gateway.Interface, NextHops: gateway.NextHops, SNAT: cmp.Or(gateway.SNAT, networkv1alpha1.SNATNode),
		NodePortAddresses: gateway.NodePortAddresses}
	for i, override := range gateway.Overrides {
		selector, err := metav1.LabelSelectorAsSelector(&override.NodeSelector)
		if err != nil {
			return result, overrideError(i, err)
		}
		if !selector.Matches(node) {
			continue
		}
		result.Mode, result.Uplink = cmp.Or(override.Mode, result.Mode), cmp.Or(override.Uplink, result.Uplink)
		result.Interface = cmp.Or(override.Interface, result.Interface)
		if len(override.NextHops) > 0 {
			result.NextHops = override.NextHops
		}
		break
	}
	return result, nil
}

// CheckGateway returns an error for the first unreadable selector of the overrides, whichever nodes exist. The API
// server does not validate selectors.
func CheckGateway(gateway networkv1alpha1.Gateway) error {
	for i, override := range gateway.Overrides {
		if _, err := metav1.LabelSelectorAsSelector(&override.NodeSelector); err != nil {
			return overrideError(i, err)
		}
	}
	return nil
}

func overrideError(i int, err error) error {
	return fmt.Errorf("spec.gateway.overrides[%d].nodeSelector: %w", i, err)
}

// ParseGateway reads the facts for topology.GatewayUnit: the link that the agent found, or the requested settings
// while they are not in effect. A NodeNetwork without status.gateway has no connection to the outside yet.
func ParseGateway(nn *networkv1alpha1.NodeNetwork, node *corev1.Node) (Gateway, error) {
	facts, err := ParseNodeNetwork(nn)
	status := nn.Status.Gateway
	if err != nil || status == nil {
		g := Gateway{Node: facts, TopologyZone: node.Labels[corev1.LabelTopologyZone], HostAddresses: hostAddresses(node, nil, "")}
		g.setPorts(nn, node)
		return g, err
	}
	g := Gateway{Node: facts, TopologyZone: node.Labels[corev1.LabelTopologyZone], Mode: status.Mode, Bridge: status.Bridge,
		SNAT: cmp.Or(status.SNAT, nn.Spec.Gateway.SNAT) != networkv1alpha1.SNATNone, MTU: int(nn.Spec.MTU),
		Alone: alone(status), Carries: carries(node),
		Answers: status.Mode == networkv1alpha1.GatewayLocal && status.AnswersForAddresses}
	if status.MACAddress != "" {
		if g.MAC, err = parseMAC(string(status.MACAddress)); err != nil {
			return g, fmt.Errorf("NodeNetwork %s: status.gateway.macAddress: %w", nn.Name, err)
		}
	}
	if g.Mode != networkv1alpha1.GatewayLocal && g.MAC == nil {
		return g, fmt.Errorf("NodeNetwork %s: status.gateway.macAddress is missing", nn.Name)
	}
	if g.Addresses, err = interfaceAddresses("status.gateway.addresses", status.Addresses); err == nil {
		g.Join, err = interfaceAddresses("spec.joinAddresses", nn.Spec.JoinAddresses)
	}
	if err == nil {
		g.Clusters, err = prefixes("spec.clusterSubnets", nn.Spec.ClusterSubnets)
	}
	if err != nil {
		return g, fmt.Errorf("NodeNetwork %s: %w", nn.Name, err)
	}
	for i, link := range status.FurtherLinks {
		further, err := interfaceAddresses(fmt.Sprintf("status.gateway.furtherLinks[%d].addresses", i), link.Addresses)
		if err != nil {
			return g, fmt.Errorf("NodeNetwork %s: %w", nn.Name, err)
		}
		g.Further = append(g.Further, further...)
	}
	for i, text := range status.NextHops {
		hop, err := text.Addr()
		if err != nil {
			return g, fmt.Errorf("NodeNetwork %s: status.gateway.nextHops[%d]: %w", nn.Name, i, err)
		}
		g.NextHops = append(g.NextHops, hop)
	}
	g.HostAddresses = hostAddresses(node, g.Addresses, status.Uplink)
	for i, text := range nn.Status.HostAddresses {
		address, err := text.Addr()
		if err != nil {
			return g, fmt.Errorf("NodeNetwork %s: status.hostAddresses[%d]: %w", nn.Name, i, err)
		}
		if !slices.Contains(g.HostAddresses, address) && !slices.Contains(ipam.Addresses(g.Addresses), address) {
			g.OtherAddresses = append(g.OtherAddresses, address)
		}
	}
	g.setPorts(nn, node)
	return g, nil
}

// setPorts sets Ports from the rule of spec.
func (g *Gateway) setPorts(nn *networkv1alpha1.NodeNetwork, node *corev1.Node) {
	g.Ports = PortAddresses(append(ipam.Addresses(g.Addresses), g.HostAddresses...), nn.Spec.Gateway.NodePortAddresses, InternalIPs(node))
}

// hostAddresses returns the node's own addresses: its InternalIPs, and the addresses of a link that it shares with
// OVN.
func hostAddresses(node *corev1.Node, link []netip.Prefix, uplink networkv1alpha1.UplinkType) []netip.Addr {
	var addresses []netip.Addr
	for _, a := range node.Status.Addresses {
		if address, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			addresses = append(addresses, address)
		}
	}
	if uplink != networkv1alpha1.UplinkInterface {
		addresses = append(addresses, ipam.Addresses(link)...)
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses)
}

func interfaceAddresses(field string, texts []networkv1alpha1.InterfaceAddress) ([]netip.Prefix, error) {
	parsed := make([]netip.Prefix, 0, len(texts))
	for i, text := range texts {
		prefix, err := text.Prefix()
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		parsed = append(parsed, prefix)
	}
	return parsed, nil
}

// ServedAt returns the addresses at which OVN serves node ports and host ports: the first of each family on the gateway's link, which
// packets from outside reach, or else the first of the node.
func (g Gateway) ServedAt() (first []netip.Addr) {
	for _, is4 := range []bool{true, false} {
		if i := slices.IndexFunc(g.Ports, func(a netip.Addr) bool { return a.Is4() == is4 }); i >= 0 {
			first = append(first, g.Ports[i])
		}
	}
	return first
}

// NodePortAddresses returns ServedAt of a node's gateway. It leaves out unreadable addresses, which the gateway's own
// reconciler reports.
func NodePortAddresses(nn *networkv1alpha1.NodeNetwork, node *corev1.Node) []netip.Addr {
	var g Gateway
	var uplink networkv1alpha1.UplinkType
	if status := nn.Status.Gateway; status != nil {
		g.Alone, uplink = alone(status), status.Uplink
		g.Addresses, _ = interfaceAddresses("", status.Addresses)
	}
	g.HostAddresses = hostAddresses(node, g.Addresses, uplink)
	g.setPorts(nn, node)
	return g.ServedAt()
}

// alone reports whether only OVN uses a gateway's link.
func alone(status *networkv1alpha1.NodeGatewayStatus) bool {
	return status.Mode == networkv1alpha1.GatewayShared && status.Uplink == networkv1alpha1.UplinkInterface
}

// HasRouter reports whether the node has a gateway router.
func (g Gateway) HasRouter() bool {
	return g.Mode != networkv1alpha1.GatewayLocal && len(g.Addresses) > 0 && g.Node.Chassis != "" && g.Bridge != ""
}

// AnswersByHost reports whether the host answers for addresses of load balancers, instead of a gateway router.
func (g Gateway) AnswersByHost() bool {
	return g.Answers && len(g.Addresses) > 0 && g.Node.Chassis != ""
}

// HasEgressRouter reports whether the node has a gateway router in Local mode. It only carries the sources of pods outside: egress
// IPs and addresses of Services. The host is its next hop.
func (g Gateway) HasEgressRouter() bool {
	return g.AnswersByHost() && len(g.Join) > 0 && (g.Carries || g.Leaving)
}

// WaysOut returns the next hops, at most one per family, by which floating addresses of the node's pods leave: the join
// address of the gateway router, or in Local mode the address of the management port. The list is empty while the node
// has no connection to the outside.
func (g Gateway) WaysOut() []netip.Addr {
	switch {
	case g.HasRouter():
		return ipam.Addresses(g.Join)
	case g.Mode == networkv1alpha1.GatewayLocal && len(g.Addresses) > 0:
		return ManagementAddresses(g.Node.Subnets)
	}
	return nil
}
