package topology

import (
	"fmt"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

// NodeSpec completes the spec of a node's NodeNetwork: what is there stays, what is missing is chosen among what the others
// do not have. The error wraps ipam.ErrExhausted when nothing is left to choose from.
func NodeSpec(have networkv1alpha1.NodeNetworkSpec, plan Plan, others []networkv1alpha1.NodeNetworkSpec, settings Settings) (networkv1alpha1.NodeNetworkSpec, error) {
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
		// The cluster router has the first address, so node N has number N+1.
		want.JoinAddresses = append(want.JoinAddresses, interfaceAddress(ipam.Host(join, id+1), join))
	}
	want.ClusterSubnets, want.ServiceSubnets = nil, nil
	for _, cluster := range plan.Clusters {
		want.ClusterSubnets = append(want.ClusterSubnets, networkv1alpha1.CIDR(cluster.CIDR.String()))
	}
	for _, service := range plan.Services {
		want.ServiceSubnets = append(want.ServiceSubnets, networkv1alpha1.CIDR(service.String()))
	}
	want.MTU, want.Encapsulation, want.Gateway, want.DNS = settings.MTU, settings.Encapsulation, settings.Gateway, settings.DNS
	return want, nil
}

// Settings are what a node does not choose.
type Settings struct {
	MTU           int32 // bytes; 0 while it is not known
	Encapsulation networkv1alpha1.Encapsulation
	Gateway       networkv1alpha1.NodeGateway
	DNS           networkv1alpha1.DNS
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

// nodeSubnets keeps the node's subnets and adds one for each family of the plan that has none.
func nodeSubnets(have networkv1alpha1.NodeNetworkSpec, plan Plan, others []networkv1alpha1.NodeNetworkSpec) ([]netip.Prefix, error) {
	subnets, err := prefixes("spec.podSubnets", have.PodSubnets)
	if err != nil {
		return nil, err
	}
	missing := plan.missing(subnets)
	if len(missing) == 0 {
		return subnets, nil
	}
	used := slices.Clone(subnets)
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

// IsComplete reports whether a node has all that is chosen: NodeSpec does not ask then what the others have, of whom there may be thousands.
func IsComplete(have networkv1alpha1.NodeNetworkSpec, plan Plan) bool {
	subnets, err := prefixes("spec.podSubnets", have.PodSubnets)
	return have.NodeID != 0 && err == nil && len(plan.missing(subnets)) == 0
}

// missing are the plan's families of which there is no subnet.
func (p Plan) missing(subnets []netip.Prefix) []bool {
	return slices.DeleteFunc(p.families(), func(is4 bool) bool {
		return slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Addr().Is4() == is4 })
	})
}

// nextSubnet tries the plan's networks of a family in their order; the error speaks of the last.
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

// Exhausted returns an error for each family in which no network has a subnet left: it speaks of the family's last.
func (p Plan) Exhausted(used []netip.Prefix) []error {
	var exhausted []error
	for _, is4 := range p.families() {
		if _, err := p.nextSubnet(is4, used); err != nil {
			exhausted = append(exhausted, err)
		}
	}
	return exhausted
}

// families lists the plan's families in order: true for IPv4.
func (p Plan) families() []bool {
	var families []bool
	for _, cluster := range p.Clusters {
		if is4 := cluster.CIDR.Addr().Is4(); !slices.Contains(families, is4) {
			families = append(families, is4)
		}
	}
	return families
}

// ManagementAddresses are those of the management port: the second of each subnet.
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
