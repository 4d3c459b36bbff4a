package facts

import (
	"fmt"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// PodNetwork is a Network, parsed.
type PodNetwork struct {
	Name     string
	Topology networkv1alpha1.NetworkTopology
	// Subnets are the addresses of pods, at most one per family; none if pods configure themselves. HostPrefix is the
	// length of each node's part of a Layer3 network.
	Subnets []ipam.Network
	Exclude []netip.Prefix
	// MTU in bytes; 0: that of the cluster network.
	MTU int
	// PhysicalNetwork and VLAN are the segment of a Localnet network. VLAN 0 means untagged frames.
	PhysicalNetwork string
	VLAN            int
}

// ParseNetwork reads a Network. The API server has validated it field by field; the error names a field that
// contradicts another.
func ParseNetwork(o *networkv1alpha1.Network) (PodNetwork, error) {
	n := PodNetwork{Name: o.Name, Topology: o.Spec.Topology, MTU: int(o.Spec.MTU),
		PhysicalNetwork: string(o.Spec.PhysicalNetwork), VLAN: int(o.Spec.VLAN)}
	for i, subnet := range o.Spec.Subnets {
		cidr, err := subnet.CIDR.Prefix()
		if err != nil {
			return n, fmt.Errorf("spec.subnets[%d].cidr: %w", i, err)
		}
		hostPrefix := int(subnet.HostPrefix)
		if hostPrefix == 0 {
			hostPrefix = defaultHostPrefix(cidr)
		}
		if n.Topology == networkv1alpha1.TopologyLayer3 && (hostPrefix < cidr.Bits() || hostPrefix > cidr.Addr().BitLen()-2) {
			return n, fmt.Errorf("spec.subnets[%d].hostPrefix: %d is not in %d..%d", i, hostPrefix, cidr.Bits(), cidr.Addr().BitLen()-2)
		}
		const ipv6MTU = 1280
		if n.MTU != 0 && n.MTU < ipv6MTU && cidr.Addr().Is6() {
			return n, fmt.Errorf("spec.mtu: %d is below the %d that IPv6 needs", n.MTU, ipv6MTU)
		}
		n.Subnets = append(n.Subnets, ipam.Network{CIDR: cidr, HostPrefix: hostPrefix})
	}
	var err error
	if n.Exclude, err = prefixes("spec.excludeSubnets", o.Spec.ExcludeSubnets); err != nil {
		return n, err
	}
	for i, excluded := range n.Exclude {
		within := func(s ipam.Network) bool { return s.CIDR.Contains(excluded.Addr()) && s.CIDR.Bits() <= excluded.Bits() }
		if !slices.ContainsFunc(n.Subnets, within) {
			return n, fmt.Errorf("spec.excludeSubnets[%d]: %s is in none of spec.subnets", i, excluded)
		}
	}
	return n, nil
}

// OnlyNode returns an error if the network has a part for one node only, as a Network from before the API server refused it. Its pods go
// on, on that node.
func (n PodNetwork) OnlyNode() error {
	for i, subnet := range n.Subnets {
		if n.PerNode() && subnet.HostPrefix == subnet.CIDR.Bits() {
			return fmt.Errorf("spec.subnets[%d].hostPrefix: %d is the prefix length of cidr %s, so that only one node has a part of it",
				i, subnet.HostPrefix, subnet.CIDR)
		}
	}
	return nil
}

// PerNode reports whether the network has a switch for each node.
func (n PodNetwork) PerNode() bool { return n.Topology == networkv1alpha1.TopologyLayer3 }

// Switch returns the switch that the network's pods on a node are on.
func (n PodNetwork) Switch(node string) string {
	if n.PerNode() {
		return names.NetworkNodeSwitch(n.Name, node)
	}
	return names.NetworkSwitch(n.Name)
}

// Pools returns the addresses that the pods of a node can have: of all subnets or, of a Layer3 network, of the node's
// part of each. The part follows from the node's ID, so that it need not be stored. The error names the subnet that
// has no part for the node.
func (n PodNetwork) Pools(node string, id int) (pools []alloc.Pool, err error) {
	for _, subnet := range n.Subnets {
		pool := alloc.Pool{Subnet: subnet.CIDR, Whole: true, Exclude: n.Exclude}
		if n.PerNode() {
			pool.Whole = false
			if pool.Subnet, err = subnet.Part(id - 1); err != nil {
				return nil, fmt.Errorf("network %s has no subnet for node %s: %w", n.Name, node, err)
			}
		}
		pools = append(pools, pool)
	}
	return pools, nil
}
