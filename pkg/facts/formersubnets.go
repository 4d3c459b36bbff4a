package facts

import (
	"maps"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

// FormerSubnets returns the subnets that nodes without a NodeNetwork had, by the addresses that their pods still have: node ->
// subnets. A subnet that one of the others has, or that an earlier node in alphabetical order had, is left out. The error is of an
// unreadable subnet.
func (p Plan) FormerSubnets(addresses map[string][]netip.Addr, others []networkv1alpha1.NodeNetworkSpec) (
	map[string][]networkv1alpha1.CIDR, error) {
	if len(addresses) == 0 {
		return nil, nil
	}
	used := slices.Clone(p.Floating)
	for _, other := range others {
		theirs, err := prefixes("spec.podSubnets", other.PodSubnets)
		if err != nil {
			return nil, err
		}
		used = append(used, theirs...)
	}
	former := map[string][]networkv1alpha1.CIDR{}
	for _, node := range slices.Sorted(maps.Keys(addresses)) {
		for _, cluster := range p.Clusters {
			subnet, ok := subnetOfMost(addresses[node], cluster)
			if !ok || slices.ContainsFunc(used, subnet.Overlaps) || len(former[node]) == maxSubnets {
				continue
			}
			used = append(used, subnet)
			former[node] = append(former[node], networkv1alpha1.CIDR(subnet.String()))
		}
	}
	return former, nil
}

// subnetOfMost returns the subnet of a network that has most of the addresses, the first of several. ok is false if none has any.
func subnetOfMost(addresses []netip.Addr, network ipam.Network) (most netip.Prefix, ok bool) {
	count := map[netip.Prefix]int{}
	for _, a := range addresses {
		subnet := netip.PrefixFrom(a, network.HostPrefix).Masked()
		if network.CIDR.Contains(a) && ipam.IsPodAddress(subnet, a) {
			count[subnet]++
		}
	}
	for subnet, n := range count {
		if !ok || n > count[most] || n == count[most] && subnet.Addr().Less(most.Addr()) {
			most, ok = subnet, true
		}
	}
	return most, ok
}
