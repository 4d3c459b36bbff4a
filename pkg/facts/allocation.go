package facts

import (
	"fmt"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

// NodeSpec completes the spec of a node's NodeNetwork. It keeps existing values. For a missing value it chooses a
// value that no other node has. The error wraps ipam.ErrExhausted if no value is left. A Pending plan leaves the
// networks of a complete spec unchanged.
func NodeSpec(have networkv1alpha1.NodeNetworkSpec, plan Plan, others []networkv1alpha1.NodeNetworkSpec,
	settings Settings) (networkv1alpha1.NodeNetworkSpec, error) {
	want := have
	id, err := nodeID(have, others)
	if err != nil {
		return have, err
	}
	subnets, err := nodeSubnets(have, plan, others)
	if err != nil {
		return have, err
	}
	want.NodeID = int32(id)
	want.PodSubnets, want.Gateways, want.ManagementPort.Addresses = nil, nil, nil
	for _, subnet := range subnets {
		want.PodSubnets = append(want.PodSubnets, networkv1alpha1.CIDR(subnet.String()))
		want.Gateways = append(want.Gateways, networkv1alpha1.IP(ipam.Gateway(subnet).String()))
		want.ManagementPort.Addresses = append(want.ManagementPort.Addresses, interfaceAddress(ipam.Management(subnet), subnet))
	}
	want.ManagementPort.MACAddress = networkv1alpha1.MACAddress(ipam.MAC(ManagementAddresses(subnets)).String())
	want.JoinAddresses = nil
	for _, join := range plan.joinSubnets() {
		// The cluster router has the first address, so node N has address N+1.
		want.JoinAddresses = append(want.JoinAddresses, interfaceAddress(ipam.Host(join, id+1), join))
	}
	if plan.Pending {
		want.ClusterSubnets, want.ServiceSubnets, want.JoinAddresses = have.ClusterSubnets, have.ServiceSubnets, have.JoinAddresses
		return settings.of(want), nil
	}
	want.ClusterSubnets, want.ServiceSubnets = nil, nil
	for _, cluster := range plan.Clusters {
		want.ClusterSubnets = append(want.ClusterSubnets, networkv1alpha1.CIDR(cluster.CIDR.String()))
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
	want.ReservedPorts, want.HostPorts, want.PhysicalNetworks = s.ReservedPorts, s.HostPorts, s.PhysicalNetworks
	want.Relays = s.Relays
	return want
}

// Settings are the values that need no choice: they follow from the ClusterNetwork and the node's labels.
type Settings struct {
	MTU           int32 // bytes; 0 until it is computed, and the node then keeps its MTU
	Encapsulation networkv1alpha1.Encapsulation
	Gateway       networkv1alpha1.NodeGateway
	DNS           networkv1alpha1.DNS
	ReservedPorts []networkv1alpha1.ReservedPort
	HostPorts     networkv1alpha1.HostPorts
	// PhysicalNetworks are the node's own.
	PhysicalNetworks []networkv1alpha1.NodePhysicalNetwork
	// Relays are the addresses of the node's relays: see NodeRelays.
	Relays []networkv1alpha1.IP
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

// nodeSubnets keeps the node's subnets and adds one for each family of the plan without a subnet.
func nodeSubnets(have networkv1alpha1.NodeNetworkSpec, plan Plan, others []networkv1alpha1.NodeNetworkSpec) ([]netip.Prefix, error) {
	subnets, err := prefixes("spec.podSubnets", have.PodSubnets)
	if err != nil {
		return nil, err
	}
	missing := plan.missing(subnets)
	if len(missing) == 0 {
		return subnets, nil
	}
	used := slices.Concat(subnets, plan.Floating)
	for _, other := range others {
		theirs, err := prefixes("spec.podSubnets", other.PodSubnets)
		if err != nil {
			return nil, err
		}
		used = append(used, theirs...)
	}
	for _, is4 := range missing {
		subnet, err := plan.nextSubnet(is4, used)
		if err != nil {
			return nil, err
		}
		subnets = append(subnets, subnet)
	}
	return subnets, nil
}

// IsComplete reports whether a node has every chosen value. NodeSpec then needs no list of the others, of which there
// may be thousands.
func IsComplete(have networkv1alpha1.NodeNetworkSpec, plan Plan) bool {
	subnets, err := prefixes("spec.podSubnets", have.PodSubnets)
	return have.NodeID != 0 && err == nil && len(plan.missing(subnets)) == 0
}

// missing reports for each family of the plan whether it has no subnet.
func (p Plan) missing(subnets []netip.Prefix) []bool {
	return slices.DeleteFunc(p.families(), func(is4 bool) bool {
		return slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Addr().Is4() == is4 })
	})
}

// nextSubnet tries the plan's networks of a family in order. The error is that of the last network.
func (p Plan) nextSubnet(is4 bool, used []netip.Prefix) (subnet netip.Prefix, err error) {
	for _, cluster := range p.Clusters {
		if cluster.CIDR.Addr().Is4() != is4 {
			continue
		}
		if subnet, err = cluster.NextSubnet(used); err == nil {
			return subnet, nil
		}
	}
	return netip.Prefix{}, err
}

// Exhausted returns an error for each family in which no network has a subnet left. It is the error of the family's
// last network.
func (p Plan) Exhausted(used []netip.Prefix) []error {
	var exhausted []error
	for _, is4 := range p.families() {
		if _, err := p.nextSubnet(is4, used); err != nil {
			exhausted = append(exhausted, err)
		}
	}
	return exhausted
}

// families lists the plan's families in order. true means IPv4.
func (p Plan) families() []bool {
	var families []bool
	for _, cluster := range p.Clusters {
		if is4 := cluster.CIDR.Addr().Is4(); !slices.Contains(families, is4) {
			families = append(families, is4)
		}
	}
	return families
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
