package facts

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

// Network holds the facts for topology.NetworkUnit.
type Network struct {
	// Join are the join switch's subnets, one per family. The cluster router has the first address of each, and its MAC
	// is derived from the first of them.
	Join []netip.Prefix
	// Clusters are the CIDRs of all pods.
	Clusters []netip.Prefix
	// FloatingNetworks are the networks in Clusters that have floating addresses of pods. No node may have all of one of them.
	FloatingNetworks []netip.Prefix
	// Cluster identifies the Kubernetes cluster. It is the UID of the namespace kube-system.
	Cluster string
	// Routed means that pods may have routers of their own.
	Routed bool
	// Multicast means that the router forwards multicast packets between nodes.
	Multicast bool
	// Clustered means that the databases have several members.
	Clustered bool
}

// Node holds the facts for topology.NodeUnit.
type Node struct {
	Name string
	// ID is the number of the node, 1..16000. It is part of tunnel keys.
	ID int
	// Subnets are the node's pod subnets, of both families. Leaving are the subnets among them that give no addresses.
	Subnets, Leaving []netip.Prefix
	// GatewayMAC is the MAC of the cluster router in the subnets. It is nil if it is derived from its addresses there.
	GatewayMAC net.HardwareAddr
	// ManagementMAC is the MAC of the management port.
	ManagementMAC net.HardwareAddr
	// Chassis is the node's OVS system-id. It is empty until the node's agent reports it.
	Chassis string
	// Zone is the node's zone. It is empty in the default zone.
	Zone networkv1alpha1.ZoneName
	// Multicast means that multicast packets reach only the pods that joined the group, in namespaces that request it.
	Multicast bool
}

// Plan is the parsed spec of the ClusterNetwork, from which node subnets and join addresses are computed.
type Plan struct {
	// Clusters are the networks that node subnets are taken from, in the order of the spec.
	Clusters []ipam.Network
	// Leaving are networks of pods that were removed from the spec and are still in use. Services and Join contain the
	// networks of their families.
	Leaving  []netip.Prefix
	Services []netip.Prefix
	Join     []netip.Prefix
	// Floating are the addresses that IPPools give to pods one by one. No node gets a subnet that overlaps them.
	Floating []netip.Prefix
	// Multicast means that namespaces request multicast. Otherwise it is flooded on each node.
	Multicast bool
	// Routed is set while there is an ExternalRoute.
	Routed bool
	// Pending is set until the networks are judged. No node gets a part of them while it is set.
	Pending bool
}

// ParseClusterNetwork reads a ClusterNetwork. The API server has validated it. An error names the field.
func ParseClusterNetwork(cn *networkv1alpha1.ClusterNetwork) (Plan, error) {
	plan := Plan{Multicast: cn.Spec.Multicast == networkv1alpha1.MulticastOnRequest}
	for i, entry := range cn.Spec.ClusterNetwork {
		cidr, err := entry.CIDR.Prefix()
		if err != nil {
			return Plan{}, fmt.Errorf("spec.clusterNetwork[%d].cidr: %w", i, err)
		}
		hostPrefix := int(entry.HostPrefix)
		if hostPrefix == 0 {
			hostPrefix = defaultHostPrefix(cidr)
		}
		if hostPrefix < cidr.Bits() || hostPrefix > cidr.Addr().BitLen() {
			return Plan{}, fmt.Errorf("spec.clusterNetwork[%d].hostPrefix: %d is not in %d..%d", i, hostPrefix,
				cidr.Bits(), cidr.Addr().BitLen())
		}
		plan.Clusters = append(plan.Clusters, ipam.Network{CIDR: cidr, HostPrefix: hostPrefix})
	}
	var err error
	if plan.Services, err = prefixes("spec.serviceNetwork", cn.ServiceNetworks()); err != nil {
		return Plan{}, err
	}
	if plan.Join, err = prefixes("spec.joinSubnet", cn.Spec.JoinSubnet); err != nil {
		return plan, err
	}
	if len(cn.Spec.ServiceNetwork) == 0 {
		if err := plan.checkServices(); err != nil {
			return plan, err
		}
	}
	return plan, checkTransit(cn.Spec.Zones, slices.Concat(plan.PodNetworks(), plan.Services, plan.Join))
}

func defaultHostPrefix(cidr netip.Prefix) int {
	if cidr.Addr().Is4() {
		return networkv1alpha1.DefaultHostPrefixIPv4
	}
	return networkv1alpha1.DefaultHostPrefixIPv6
}

// Clustered reports whether the databases of a zone, or of the default zone, have several members.
func Clustered(cn *networkv1alpha1.ClusterNetwork, zone networkv1alpha1.ZoneName) bool {
	if zone == "" {
		return cn.Spec.Databases.Members > 1
	}
	return slices.ContainsFunc(cn.Spec.Zones, func(z networkv1alpha1.Zone) bool { return z.Name == zone && z.Databases.Members > 1 })
}

// Network returns the facts for topology.NetworkUnit. cluster is the UID of the namespace kube-system.
func (p Plan) Network(cluster string) Network {
	n := Network{Cluster: cluster, Join: p.joinSubnets(), Clusters: p.PodNetworks(), Multicast: p.Multicast, Routed: p.Routed}
	for _, c := range p.Clusters {
		// A node that has all of an entry leaves no address of it.
		if c.HostPrefix > c.CIDR.Bits() && slices.ContainsFunc(p.Floating, c.CIDR.Overlaps) {
			n.FloatingNetworks = append(n.FloatingNetworks, c.CIDR)
		}
	}
	for _, leaving := range p.Leaving {
		if slices.ContainsFunc(p.Floating, leaving.Overlaps) {
			n.FloatingNetworks = append(n.FloatingNetworks, leaving)
		}
	}
	return n
}

// PodNetworks returns the networks of all pods, the leaving networks last.
func (p Plan) PodNetworks() (networks []netip.Prefix) {
	for _, cluster := range p.Clusters {
		networks = append(networks, cluster.CIDR)
	}
	return append(networks, p.Leaving...)
}

// hairpin are the IPv6 addresses from which load balancers return packets to their sender. The IPv4 ones are link-local, and no Service
// may have such an address.
var hairpin = netip.MustParsePrefix("fd69::4/127")

// Reserved returns the networks whose addresses no Service may have, besides the service networks: of pods, of gateway routers and of
// load balancers.
func (p Plan) Reserved() []netip.Prefix {
	return append(slices.Concat(p.PodNetworks(), p.Join), hairpin)
}

// NodeReserved is Reserved for an agent, which reads its NodeNetwork only. It omits what it cannot read.
func NodeReserved(spec networkv1alpha1.NodeNetworkSpec) (networks []netip.Prefix) {
	for _, text := range spec.ClusterSubnets {
		if network, err := text.Prefix(); err == nil {
			networks = append(networks, network)
		}
	}
	for _, text := range spec.JoinAddresses {
		if address, err := text.Prefix(); err == nil {
			networks = append(networks, address.Masked())
		}
	}
	return append(networks, hairpin)
}

// joinSubnets returns the join subnets of the families that pods have.
func (p Plan) joinSubnets() []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(p.Join), func(join netip.Prefix) bool {
		return !slices.ContainsFunc(p.PodNetworks(), func(n netip.Prefix) bool { return n.Addr().Is4() == join.Addr().Is4() })
	})
}

// ethernet is the length of a MAC in bytes.
const ethernet = 6

// ParseNodeNetwork reads the facts for topology.NodeUnit from a NodeNetwork that the operator has completed.
func ParseNodeNetwork(nn *networkv1alpha1.NodeNetwork) (Node, error) {
	subnets, err := prefixes("spec.podSubnets", nn.Spec.PodSubnets)
	if err != nil {
		return Node{}, fmt.Errorf("NodeNetwork %s: %w", nn.Name, err)
	}
	mac, err := parseMAC(string(nn.Spec.ManagementPort.MACAddress))
	if err != nil {
		return Node{}, fmt.Errorf("NodeNetwork %s: spec.managementPort.macAddress: %w", nn.Name, err)
	}
	leaving, err := prefixes("spec.leavingSubnets", nn.Spec.LeavingSubnets)
	if err != nil {
		return Node{}, fmt.Errorf("NodeNetwork %s: %w", nn.Name, err)
	}
	node := Node{Name: nn.Name, ID: int(nn.Spec.NodeID), Subnets: subnets, Leaving: leaving, ManagementMAC: mac, Chassis: nn.Status.Chassis,
		Zone: nn.Spec.Zone}
	if text := nn.Spec.GatewayMACAddress; text != "" {
		if node.GatewayMAC, err = parseMAC(string(text)); err != nil {
			return Node{}, fmt.Errorf("NodeNetwork %s: spec.gatewayMACAddress: %w", nn.Name, err)
		}
	}
	return node, nil
}

// parseMAC reads an Ethernet address.
func parseMAC(text string) (net.HardwareAddr, error) {
	mac, err := net.ParseMAC(text)
	if err == nil && len(mac) != ethernet {
		err = fmt.Errorf("%s has %d bytes, not %d", mac, len(mac), ethernet)
	}
	return mac, err
}

func prefixes(field string, cidrs []networkv1alpha1.CIDR) ([]netip.Prefix, error) {
	parsed := make([]netip.Prefix, 0, len(cidrs))
	for i, cidr := range cidrs {
		prefix, err := cidr.Prefix()
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		parsed = append(parsed, prefix)
	}
	return parsed, nil
}
