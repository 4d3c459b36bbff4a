package facts

import (
	"fmt"
	"net/netip"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

// NodeSpec completes the spec of a node's NodeNetwork. It keeps existing values, except leaving subnets that are idle and not the last.
// For a missing value it chooses a value that no other node has. The error wraps ipam.ErrExhausted if a new node finds
// no ID or no subnet. A node that has subnets works with them while no other is left (Lacking). A Pending plan leaves
// the networks of a complete spec unchanged.
func NodeSpec(have networkv1alpha1.NodeNetworkSpec, plan Plan, others []networkv1alpha1.NodeNetworkSpec,
	settings Settings) (networkv1alpha1.NodeNetworkSpec, error) {
	want := have
	id, err := nodeID(have, others)
	if err != nil {
		return have, err
	}
	subnets, err := nodeSubnets(have, plan, others, settings)
	if err != nil {
		return have, err
	}
	want.NodeID = int32(id)
	want.PodSubnets, want.Gateways, want.ManagementPort.Addresses, want.LeavingSubnets = nil, nil, nil, nil
	for _, subnet := range subnets {
		want.PodSubnets = append(want.PodSubnets, networkv1alpha1.CIDR(subnet.String()))
		if plan.leaves(subnet) {
			want.LeavingSubnets = append(want.LeavingSubnets, networkv1alpha1.CIDR(subnet.String()))
		}
		want.Gateways = append(want.Gateways, networkv1alpha1.IP(ipam.Gateway(subnet).String()))
		want.ManagementPort.Addresses = append(want.ManagementPort.Addresses, interfaceAddress(ipam.Management(subnet), subnet))
	}
	if err := setMACs(&want, have, subnets); err != nil {
		return have, err
	}
	want.JoinAddresses, want.TransitAddresses = nil, nil
	if settings.Zoned {
		want.TransitAddresses = transitAddresses(id, plan)
	}
	for _, join := range plan.joinSubnets() {
		// The cluster router has the first address, so node N has address N+1.
		want.JoinAddresses = append(want.JoinAddresses, interfaceAddress(ipam.Host(join, id+1), join))
	}
	if plan.Pending {
		want.ClusterSubnets, want.ServiceSubnets, want.JoinAddresses = have.ClusterSubnets, have.ServiceSubnets, have.JoinAddresses
		want.LeavingSubnets, want.TransitAddresses = have.LeavingSubnets, have.TransitAddresses
		return settings.of(want), nil
	}
	want.ClusterSubnets, want.ServiceSubnets = nil, nil
	for _, cluster := range plan.PodNetworks() {
		want.ClusterSubnets = append(want.ClusterSubnets, networkv1alpha1.CIDR(cluster.String()))
	}
	for _, service := range plan.Services {
		want.ServiceSubnets = append(want.ServiceSubnets, networkv1alpha1.CIDR(service.String()))
	}
	return settings.of(want), nil
}

// of returns a node's spec with these settings.
func (s Settings) of(want networkv1alpha1.NodeNetworkSpec) networkv1alpha1.NodeNetworkSpec {
	if s.MTU != 0 { // a recreated ClusterNetwork has no MTU at first
		want.MTU = s.MTU
	}
	want.Encapsulation, want.Gateway, want.DNS = s.Encapsulation, s.Gateway, s.DNS
	want.Encryption = s.Encryption
	want.ReservedPorts, want.HostPorts = s.ReservedPorts, s.HostPorts
	want.PhysicalNetworks = keepPhysicalNetworks(want.PhysicalNetworks, s.PhysicalNetworks, s.PhysicalUsed)
	want.Relays, want.Wildcards = s.Relays, s.Wildcards
	want.Zone, want.Databases = s.Zone, s.Databases
	return want
}

// Settings are the values that need no choice: they follow from the ClusterNetwork, the node's labels and its pods.
type Settings struct {
	// Idle are subnets of the node without a pod. The node gives up a leaving subnet that is idle. Full are the families,
	// true for IPv4, in which a pod finds no address. The node gets a further subnet of each.
	Idle []netip.Prefix
	Full []bool

	MTU           int32 // bytes; 0 until it is computed, and the node then keeps its MTU
	Encapsulation networkv1alpha1.Encapsulation
	// Encryption is the same on all nodes: see NodeProtection.
	Encryption    networkv1alpha1.TunnelProtection
	Gateway       networkv1alpha1.NodeGateway
	DNS           networkv1alpha1.DNS
	ReservedPorts []networkv1alpha1.ReservedPort
	HostPorts     networkv1alpha1.HostPorts
	// PhysicalNetworks are the node's own. The node keeps former entries for which PhysicalUsed returns true; nil: none.
	PhysicalNetworks []networkv1alpha1.NodePhysicalNetwork
	PhysicalUsed     func(networkv1alpha1.PhysicalNetworkName) bool
	// Relays are the addresses of the node's relays: see NodeRelays.
	Relays []networkv1alpha1.IP
	// Zone and Databases are the results of NodeZone. Zoned means that there are zones.
	Zone      networkv1alpha1.ZoneName
	Databases []networkv1alpha1.IP
	Zoned     bool
	// Wildcards are the same on all nodes.
	Wildcards *networkv1alpha1.NodeWildcards
}

func nodeID(have networkv1alpha1.NodeNetworkSpec, others []networkv1alpha1.NodeNetworkSpec) (int, error) {
	if have.NodeID != 0 {
		return int(have.NodeID), nil
	}
	used := make(map[int32]bool, len(others))
	for _, other := range others {
		used[other.NodeID] = true
	}
	for id := networkv1alpha1.MinNodeID; id <= networkv1alpha1.MaxNodeID; id++ {
		if !used[int32(id)] {
			return id, nil
		}
	}
	return 0, fmt.Errorf("all %d node IDs are in use: %w", networkv1alpha1.MaxNodeID, ipam.ErrExhausted)
}

// ManagementAddresses returns the addresses of the management port: the second of each subnet.
func ManagementAddresses(subnets []netip.Prefix) []netip.Addr {
	addresses := make([]netip.Addr, 0, len(subnets))
	for _, subnet := range subnets {
		addresses = append(addresses, ipam.Management(subnet))
	}
	return addresses
}

func interfaceAddress(address netip.Addr, subnet netip.Prefix) networkv1alpha1.InterfaceAddress {
	return networkv1alpha1.InterfaceAddress(netip.PrefixFrom(address, subnet.Bits()).String())
}
