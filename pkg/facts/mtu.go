package facts

import (
	"cmp"
	"fmt"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// CarriedMTU is the largest MTU of pods that a node's link carries.
type CarriedMTU struct {
	Node string
	MTU  int32 // bytes
}

// CarriedMTUs lists what the tunnels of the nodes carry whose agents have reported, sorted by MTU and name.
func CarriedMTUs(encryption networkv1alpha1.Encryption, nodes []networkv1alpha1.NodeNetwork) []CarriedMTU {
	return carriedMTUs(nodes, func(s *networkv1alpha1.NodeNetworkStatus) int32 {
		return networkv1alpha1.PodMTU(s.LinkMTU, s.EncapIP, encryption)
	})
}

// CarriedMTUsOf is CarriedMTUs for the pods of a Network. The links of a Localnet network's segment have no tunnels.
func CarriedMTUsOf(o *networkv1alpha1.Network, encryption networkv1alpha1.Encryption, nodes []networkv1alpha1.NodeNetwork) []CarriedMTU {
	if o.Spec.Topology != networkv1alpha1.TopologyLocalnet {
		return CarriedMTUs(encryption, nodes)
	}
	return carriedMTUs(nodes, func(s *networkv1alpha1.NodeNetworkStatus) int32 {
		for _, p := range s.PhysicalNetworks {
			if p.Name == o.Spec.PhysicalNetwork {
				return p.LinkMTU
			}
		}
		return 0
	})
}

// carriedMTUs leaves out nodes for which carries returns 0.
func carriedMTUs(nodes []networkv1alpha1.NodeNetwork, carries func(*networkv1alpha1.NodeNetworkStatus) int32) (carried []CarriedMTU) {
	for i := range nodes {
		if mtu := carries(&nodes[i].Status); mtu != 0 {
			carried = append(carried, CarriedMTU{nodes[i].Name, mtu})
		}
	}
	slices.SortFunc(carried, func(a, b CarriedMTU) int { return cmp.Or(cmp.Compare(a.MTU, b.MTU), cmp.Compare(a.Node, b.Node)) })
	return carried
}

// BelowMTU names the nodes that carry less than an MTU, with their MTU.
func BelowMTU(carried []CarriedMTU, mtu int32) (names []string) {
	for _, c := range carried {
		if c.MTU < mtu {
			names = append(names, fmt.Sprintf("%s (%d)", c.Node, c.MTU))
		}
	}
	return names
}

// NetworkMTU returns the MTU in effect of pods' interfaces on a Network, in bytes: spec.mtu if every link carries it, else the former
// one or, if that is too large as well, the largest that fits. 0 means that of the cluster network.
func NetworkMTU(o *networkv1alpha1.Network, carried []CarriedMTU) int32 {
	return fittingMTU(o.Spec.MTU, o.Status.MTU, carried)
}

// ClusterMTU returns the MTU in effect of the cluster network, in bytes. It is the same choice as NetworkMTU's, and without spec.mtu the
// largest that fits. It is 0 until spec has an MTU or an agent has reported.
func ClusterMTU(cn *networkv1alpha1.ClusterNetwork, carried []CarriedMTU) int32 {
	if cn.Spec.MTU == 0 && len(carried) > 0 {
		return carried[0].MTU
	}
	return fittingMTU(cn.Spec.MTU, cn.Status.MTU, carried)
}

func fittingMTU(wanted, former int32, carried []CarriedMTU) int32 {
	if wanted == 0 || len(carried) == 0 || wanted <= carried[0].MTU {
		return wanted
	}
	if former != 0 && former <= carried[0].MTU {
		return former
	}
	return carried[0].MTU
}
