package topology_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// podNetwork is a Network of a golden. The definition of each Network has its name, in any namespace.
type podNetwork struct {
	facts.PodNetwork
	addresses *alloc.Allocator
}

// podNetworks reads the Networks, and the policies for pods' ports on them.
func (b *builder) podNetworks(documents []string, numbers facts.Numbers) {
	b.podNets = map[string]*podNetwork{}
	for _, doc := range documents {
		var kind struct{ Kind string }
		switch b.decode(doc, &kind); kind.Kind {
		case "Network":
			var o networkv1alpha1.Network
			b.decode(doc, &o)
			n, err := facts.ParseNetwork(&o)
			if err != nil {
				b.t.Fatal(err)
			}
			b.podNets[n.Name] = &podNetwork{n, alloc.New(func() time.Time { return time.Unix(0, 0) })}
		case "MultiNetworkPolicy":
			var o cniv1beta1.MultiNetworkPolicy
			b.decode(doc, &o)
			definitions, err := networks.PolicyFor(o.Annotations, o.Namespace)
			if err != nil {
				b.t.Fatal(err)
			}
			var on []string
			for _, definition := range definitions {
				on = append(on, definition.Name)
			}
			read, err := facts.ParseMultiNetworkPolicy(&o, on, numbers)
			if err != nil {
				b.t.Fatal(err)
			}
			b.multiPolicies = append(b.multiPolicies, read)
			maps.Copy(b.selectors, topology.MultiNetworkPolicySelectors(read))
		}
	}
}

// networkUnits returns the units of the Networks, of nodes' parts of them, and of their policies.
func (b *builder) networkUnits() (units []unit.Unit) {
	for _, name := range slices.Sorted(maps.Keys(b.podNets)) {
		n := b.podNets[name]
		units = append(units, topology.PodNetworkUnit(n.PodNetwork))
		for i := range b.networks {
			if !n.PerNode() {
				break
			}
			var subnets []netip.Prefix
			for _, pool := range b.pools(n, b.networks[i].Name) {
				subnets = append(subnets, pool.Subnet)
			}
			units = append(units, topology.PodNetworkNodeUnit(n.PodNetwork, b.networks[i].Name, subnets))
		}
	}
	for _, policy := range b.multiPolicies {
		units = append(units, topology.MultiNetworkPolicyUnit(policy))
	}
	return units
}

func (b *builder) pools(n *podNetwork, node string) []alloc.Pool {
	at := slices.IndexFunc(b.networks, func(nn networkv1alpha1.NodeNetwork) bool { return nn.Name == node })
	pools, err := n.Pools(node, int(b.networks[at].Spec.NodeID))
	if err != nil {
		b.t.Fatal(err)
	}
	return pools
}

// podPorts adds the unit of a pod's ports on Networks.
func (b *builder) podPorts(pod *corev1.Pod) {
	requests, err := networks.Parse(pod.Annotations, pod.Namespace)
	if err != nil {
		b.t.Fatal(err)
	}
	var ports []topology.PodPort
	for _, request := range requests {
		n := b.podNets[request.Element.Name]
		scope := strings.Repeat(pod.Spec.NodeName, map[bool]int{true: 1}[n.PerNode()])
		n.addresses.SetPools(scope, b.pools(n, pod.Spec.NodeName))
		got, err := n.addresses.Allocate(scope, alloc.Owner(pod.UID), alloc.Request{})
		if err != nil {
			b.t.Fatal(err)
		}
		ports = append(ports, topology.PodPort{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
			Node: pod.Spec.NodeName, Chassis: b.chassis[pod.Spec.NodeName], Network: n.PodNetwork, Interface: request.Interface,
			Request: request.Hash(), Addresses: got.Addresses, MAC: got.MAC, Slot: got.Slot, Selected: b.selectedBy(pod, n.Name)})
	}
	if len(ports) > 0 {
		b.units = append(b.units, topology.PodPortsUnit(pod.Namespace, pod.Name, ports))
	}
}
