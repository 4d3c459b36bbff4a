package policyoracle

import (
	"net/netip"

	"github.com/weft-network/weft/pkg/facts"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// fabric makes the units below the policies: the network, the nodes and the pods, as the operator does.
func fabric(c *Cluster, edit func(pod *corev1.Pod, built *topology.Pod)) (units []unit.Unit) {
	units = append(units, topology.NetworkUnit(networkOf(c)))
	for i, node := range c.Nodes {
		units = append(units, topology.NodeUnit(facts.Node{Name: node.Name, ID: i + 1, Subnets: subnetsOf(c, i),
			ManagementMAC: ipam.MAC(node.Management), Chassis: "chassis-" + node.Name}))
	}
	for i := range c.Pods {
		if pod := &c.Pods[i]; facts.WantsPort(pod) {
			built := podFacts(pod, i)
			if edit != nil {
				edit(pod, &built)
			}
			units = append(units, topology.PodUnit(built))
		}
	}
	return units
}

func networkOf(c *Cluster) facts.Network {
	network := facts.Network{Cluster: "oracle"}
	for _, subnet := range subnetsOf(c, 0) {
		if subnet.Addr().Is4() {
			network.Join, network.Clusters = append(network.Join, netip.MustParsePrefix("100.64.0.0/16")),
				append(network.Clusters, netip.MustParsePrefix("10.244.0.0/16"))
		} else {
			network.Join, network.Clusters = append(network.Join, netip.MustParsePrefix("fd98::/64")),
				append(network.Clusters, netip.MustParsePrefix("fd00:10:244::/48"))
		}
	}
	return network
}

func podFacts(pod *corev1.Pod, index int) topology.Pod {
	return topology.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName,
		Chassis:   "chassis-" + pod.Spec.NodeName,
		Addresses: addressesOf(pod), MAC: ipam.MAC(addressesOf(pod)), Slot: 16 + index}
}

// subnetsOf returns a node's subnets, which contain its management addresses.
func subnetsOf(c *Cluster, node int) (subnets []netip.Prefix) {
	for _, a := range c.Nodes[node].Management {
		bits := 24
		if a.Is6() {
			bits = 64
		}
		subnets = append(subnets, netip.PrefixFrom(a, bits).Masked())
	}
	return subnets
}
