package facts

import (
	"fmt"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

// maxSubnets is the largest number of subnets of a node, which the CRD limits.
const maxSubnets = 4

// nodeSubnets keeps the node's subnets, except leaving subnets that are given up. It adds one for each family of the plan
// without a subnet that gives addresses, and for each family that is full.
func nodeSubnets(have networkv1alpha1.NodeNetworkSpec, plan Plan, others []networkv1alpha1.NodeNetworkSpec,
	settings Settings) ([]netip.Prefix, error) {
	all, err := prefixes("spec.podSubnets", have.PodSubnets)
	if err != nil {
		return nil, err
	}
	subnets := slices.DeleteFunc(slices.Clone(all), func(s netip.Prefix) bool {
		return plan.leaves(s) && slices.Contains(settings.Idle, s)
	})
	added, err := plan.further(subnets, all, plan.wanted(subnets, settings), others)
	if err != nil {
		return nil, err
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(s netip.Prefix) bool {
		return !slices.Contains(subnets, s) && plan.givesUp(s, slices.Concat(subnets, added))
	})
	return append(kept, added[:min(len(added), maxSubnets-len(kept))]...), nil
}

// givesUp reports whether a node gives up a leaving subnet that no pod uses. Without another subnet of the family it keeps
// the subnet, because a node without a subnet has no network, unless the subnet takes room from a network that gives subnets.
func (p Plan) givesUp(leaving netip.Prefix, subnets []netip.Prefix) bool {
	return !slices.Contains(p.missing(subnets), leaving.Addr().Is4()) ||
		slices.ContainsFunc(p.Clusters, func(c ipam.Network) bool { return c.CIDR.Overlaps(leaving) })
}

// GivesUp reports whether a node gives up one of these subnets, which no pod uses, when its spec is computed next.
func (p Plan) GivesUp(spec networkv1alpha1.NodeNetworkSpec, idle []netip.Prefix) bool {
	subnets, err := prefixes("spec.podSubnets", spec.PodSubnets)
	return err == nil && slices.ContainsFunc(idle, func(s netip.Prefix) bool { return p.leaves(s) && p.givesUp(s, subnets) })
}

// further returns a subnet for each wanted family, if one is left, for a node that keeps subnets of all that it has.
func (p Plan) further(subnets, all []netip.Prefix, wanted []bool, others []networkv1alpha1.NodeNetworkSpec) (added []netip.Prefix,
	err error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	used := slices.Concat(all, p.Floating)
	for _, other := range others {
		theirs, err := prefixes("spec.podSubnets", other.PodSubnets)
		if err != nil {
			return nil, err
		}
		used = append(used, theirs...)
	}
	for _, is4 := range wanted {
		if len(subnets)+len(added) == maxSubnets {
			break
		}
		subnet, err := p.without(slices.Concat(subnets, added)).nextSubnet(is4, used)
		if err != nil && len(all) == 0 {
			return nil, err
		}
		if err == nil {
			added = append(added, subnet)
		}
	}
	return added, nil
}

// leaves reports whether a subnet is in none of the networks that give subnets. Before the networks are judged, no
// subnet leaves.
func (p Plan) leaves(subnet netip.Prefix) bool {
	return !p.Pending && !slices.ContainsFunc(p.Clusters, func(c ipam.Network) bool {
		return c.CIDR.Overlaps(subnet) && c.CIDR.Bits() <= subnet.Bits()
	})
}

// without returns the plan with the networks in which a node has no subnet. A node has at most one subnet of each.
func (p Plan) without(subnets []netip.Prefix) Plan {
	p.Clusters = slices.DeleteFunc(slices.Clone(p.Clusters), func(c ipam.Network) bool {
		return slices.ContainsFunc(subnets, c.CIDR.Overlaps)
	})
	return p
}

// wanted lists the families in which a node with these subnets gets one more: the missing families, and full families
// with a network in which the node has no subnet.
func (p Plan) wanted(subnets []netip.Prefix, settings Settings) []bool {
	wanted := p.missing(subnets)
	for _, is4 := range settings.Full {
		if !slices.Contains(wanted, is4) && slices.Contains(p.without(subnets).families(), is4) {
			wanted = append(wanted, is4)
		}
	}
	if len(subnets) >= maxSubnets {
		return nil
	}
	return wanted
}

// IsComplete reports whether a node has every chosen value. NodeSpec then needs no list of the others, of which there
// may be thousands.
func IsComplete(have networkv1alpha1.NodeNetworkSpec, plan Plan, settings Settings) bool {
	return have.NodeID != 0 && !Lacking(have, plan, settings)
}

// Lacking reports whether a node waits for a subnet: it has none of a family, or a pod finds no address in its subnets
// and a network of that family could give another.
func Lacking(have networkv1alpha1.NodeNetworkSpec, plan Plan, settings Settings) bool {
	subnets, err := prefixes("spec.podSubnets", have.PodSubnets)
	return err != nil || len(plan.wanted(subnets, settings)) > 0
}

// Missing lists the families, true for IPv4, in which a NodeNetwork has no subnet that gives addresses.
func (p Plan) Missing(spec networkv1alpha1.NodeNetworkSpec) []bool {
	subnets, err := prefixes("spec.podSubnets", spec.PodSubnets)
	if err != nil {
		return nil
	}
	return p.missing(subnets)
}

// missing lists the families of the plan in which none of the subnets gives addresses.
func (p Plan) missing(subnets []netip.Prefix) []bool {
	return slices.DeleteFunc(p.families(), func(is4 bool) bool {
		return slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Addr().Is4() == is4 && !p.leaves(s) })
	})
}

// nextSubnet tries the plan's networks of a family in order. The error is that of the last network.
func (p Plan) nextSubnet(is4 bool, used []netip.Prefix) (subnet netip.Prefix, err error) {
	err = fmt.Errorf("clusterNetwork has no other entry of the family: %w", ipam.ErrExhausted)
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
func (p Plan) Exhausted(used []netip.Prefix) map[bool]error {
	exhausted := map[bool]error{}
	for _, is4 := range p.families() {
		if _, err := p.nextSubnet(is4, used); err != nil {
			exhausted[is4] = err
		}
	}
	return exhausted
}

// families lists the families in which the plan gives subnets, in order. true means IPv4.
func (p Plan) families() []bool {
	var families []bool
	for _, cluster := range p.Clusters {
		if is4 := cluster.CIDR.Addr().Is4(); !slices.Contains(families, is4) {
			families = append(families, is4)
		}
	}
	return families
}

// setMACs sets the MACs of the management port and of the gateways. They are derived from the addresses when a node gets
// its first subnets, and stay when the subnets change, because pods on the node remember them.
func setMACs(want *networkv1alpha1.NodeNetworkSpec, have networkv1alpha1.NodeNetworkSpec, subnets []netip.Prefix) error {
	had, err := prefixes("spec.podSubnets", have.PodSubnets)
	if err != nil {
		return err
	}
	want.ManagementPort.MACAddress = macAddress(ManagementAddresses(subnets))
	want.GatewayMACAddress = ""
	if len(had) == 0 || slices.Equal(had, subnets) && have.GatewayMACAddress == "" &&
		have.ManagementPort.MACAddress == want.ManagementPort.MACAddress {
		return nil
	}
	if mac, err := parseMAC(string(have.ManagementPort.MACAddress)); err == nil && ipam.IsDerived(mac) {
		want.ManagementPort.MACAddress = have.ManagementPort.MACAddress
	}
	inForce := have.GatewayMACAddress
	if mac, err := parseMAC(string(inForce)); err != nil || !ipam.IsDerived(mac) {
		inForce = macAddress(Gateways(had))
	}
	if inForce != macAddress(Gateways(subnets)) {
		want.GatewayMACAddress = inForce
	}
	return nil
}

// Gateways returns the addresses of the cluster router: the first of each subnet.
func Gateways(subnets []netip.Prefix) []netip.Addr {
	addresses := make([]netip.Addr, 0, len(subnets))
	for _, subnet := range subnets {
		addresses = append(addresses, ipam.Gateway(subnet))
	}
	return addresses
}

func macAddress(addresses []netip.Addr) networkv1alpha1.MACAddress {
	return networkv1alpha1.MACAddress(ipam.MAC(addresses).String())
}
