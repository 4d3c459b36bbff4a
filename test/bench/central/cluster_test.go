//go:build e2e

package central

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// cluster describes a cluster of a size; its objects are numbered.
type cluster struct {
	size Size
	// plan and zone are the facts of the cluster's networks, and of the measured part's connection to other zones.
	plan facts.Plan
	zone facts.Transit
	// extra are selectors of a pod in addition to its namespace's policy.
	extra map[int][]facts.PodSelector
}

// own reports whether a node, or a pod, is in the measured part. Nodes and pods are in the zones in turn, so each
// namespace and each service has pods in every zone.
func (c *cluster) own(i int) bool { return i%c.size.Zones == 0 }

// newNode returns the number of the nth node that comes to the measured part. With zones, the next number is a node elsewhere.
func (c *cluster) newNode(n int) int { return c.size.Nodes + n*c.size.Zones }

// newPod returns the number of the nth pod that comes to the measured part. With zones, the next number is a pod elsewhere.
func (c *cluster) newPod(n int) int {
	z := c.size.Zones
	return (c.size.Ports+z-1)/z*z + n*z
}

// The networks. Each node has its own /24, the default.
var (
	pods = netip.MustParsePrefix("10.128.0.0/10")
	join = netip.MustParsePrefix("100.64.0.0/16")
)

// perNamespace is the number of pods in a namespace. Each namespace has a policy that isolates its pods from all
// others.
const perNamespace = 200

// backends is the number of backends of each service.
const backends = 5

func nodeName(i int) string    { return fmt.Sprintf("node-%05d", i) }
func chassisName(i int) string { return "chassis-" + nodeName(i) }
func podName(i int) string     { return fmt.Sprintf("pod-%06d", i) }

// serviceNamespace is the namespace of all services.
const serviceNamespace = "services"

func serviceName(i int) string { return fmt.Sprintf("service-%05d", i) }

// nth returns the n-th address after a.
func nth(a netip.Addr, n int) netip.Addr {
	bytes := a.As4()
	binary.BigEndian.PutUint32(bytes[:], binary.BigEndian.Uint32(bytes[:])+uint32(n))
	return netip.AddrFrom4(bytes)
}

func encapOf(i int) netip.Addr       { return nth(netip.MustParseAddr("172.16.1.0"), i) }
func subnetOf(node int) netip.Prefix { return netip.PrefixFrom(nth(pods.Addr(), node<<8), 24) }

func (c *cluster) network() unit.Unit { return topology.NetworkUnit(c.plan.Network("bench")) }

func node(i int) facts.Node {
	subnets := []netip.Prefix{subnetOf(i)}
	return facts.Node{Name: nodeName(i), ID: i + 1, Subnets: subnets,
		ManagementMAC: ipam.MAC(facts.ManagementAddresses(subnets)), Chassis: chassisName(i)}
}

// gateway returns a gateway router on the node's own link, which is the default mode.
func gateway(i int) unit.Unit {
	own := netip.PrefixFrom(encapOf(i), 12)
	return topology.GatewayUnit(facts.Gateway{Node: node(i), Mode: networkv1alpha1.GatewayShared, Bridge: "br-ex",
		MAC: ipam.MAC([]netip.Addr{own.Addr()}), Addresses: []netip.Prefix{own},
		NextHops: []netip.Addr{netip.MustParseAddr("172.16.0.1")},
		Join:     []netip.Prefix{netip.PrefixFrom(nth(join.Addr(), i+2), join.Bits())},
		Clusters: []netip.Prefix{pods},
		SNAT:     true, MTU: 1400, HostAddresses: []netip.Addr{own.Addr()}})
}

// podAddress returns a pod's address.
func (c *cluster) podAddress(i int) netip.Addr { return c.addressOn(i, c.nodeOf(i)) }

// nodeOf returns a pod's node. Pods are assigned to the nodes in turn.
func (c *cluster) nodeOf(pod int) int { return pod % c.size.Nodes }

func (c *cluster) addressOn(pod, node int) netip.Addr {
	return nth(ipam.FirstPod(subnetOf(node)), pod/c.size.Nodes)
}

func (c *cluster) pod(i int) unit.Unit {
	p := c.podOn(i, c.nodeOf(i))
	if c.own(i) {
		return topology.PodUnit(p)
	}
	return topology.PodElsewhereUnit(p)
}

// namespaceOf returns a pod's namespace. A pod that comes later is in the namespace of an existing pod of its node, so it joins a group
// that is already on the node's switch.
func (c *cluster) namespaceOf(pod int) string {
	if pod >= c.size.Ports {
		pod = c.nodeOf(pod)
	}
	return fmt.Sprintf("namespace-%04d", pod/perNamespace)
}

// podOn returns the facts of a pod on a node.
func (c *cluster) podOn(i, on int) topology.Pod { return c.podIn(c.namespaceOf(i), i, on) }

func (c *cluster) podIn(namespace string, i, on int) topology.Pod {
	addresses := []netip.Addr{c.addressOn(i, on)}
	selected := []unit.Key{}
	for _, s := range append([]facts.PodSelector{inNamespace(namespace)}, c.extra[i]...) {
		selected = append(selected, topology.PodGroupKey(s), topology.PodSetKey(s))
	}
	return topology.Pod{Namespace: namespace, Name: podName(i),
		UID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Node: nodeName(on), Chassis: chassisName(on),
		Addresses: addresses, MAC: ipam.MAC(addresses), Slot: firstSlot + i/c.size.Nodes, Selected: selected}
}

// firstSlot is the first tunnel key of a pod's port.
const firstSlot = 16

func inNamespace(namespace string) facts.PodSelector {
	return facts.PodSelector{Namespace: namespace, Pods: labels.Everything()}
}

// policy allows the pods of a selector to receive traffic only from each other.
func policy(name string, pods facts.PodSelector) unit.Unit {
	return topology.NetworkPolicyUnit(facts.NetworkPolicy{Namespace: pods.Namespace, Name: name, Subject: pods,
		Ingress: &facts.PolicyRules{Rules: []facts.PolicyRule{{
			Peers: []facts.PolicyPeer{{Pods: &pods}},
			Ports: []ovnexpr.Ports{{Protocol: "tcp", First: 8080, Last: 8080}}, Text: "ingress[0]"}}}})
}

// groups returns the units that a selector's pods join.
func groups(pods facts.PodSelector) []unit.Unit {
	return []unit.Unit{topology.PodGroupUnit(topology.PodGroupKey(pods)), topology.PodSetUnit(topology.PodSetKey(pods))}
}

// service returns a service with a cluster IP, whose backends are consecutive pods from first on.
func (c *cluster) service(i, first int, from facts.Choice) unit.Unit {
	return c.serviceOf(i, first, backends, from)
}

// serviceOf returns a service like service, with a number of backends. Each of them is on another node.
func (c *cluster) serviceOf(i, first, backends int, from facts.Choice) unit.Unit {
	address := netip.AddrPortFrom(nth(netip.MustParseAddr("10.96.0.10"), i), 80)
	port := facts.ServicePort{Protocol: corev1.ProtocolTCP, Number: address.Port(),
		VIPs: []facts.VIP{{AddrPort: address, Reach: facts.ReachAll, From: from}}}
	for n := range backends {
		pod := (first + n) % c.size.Ports
		port.Backends = append(port.Backends, facts.Backend{AddrPort: netip.AddrPortFrom(c.podAddress(pod), 8080),
			Node: nodeName(c.nodeOf(pod))})
	}
	service := facts.Service{Namespace: serviceNamespace, Name: serviceName(i), Ports: []facts.ServicePort{port},
		ClusterIPs: []netip.Addr{address.Addr()}}
	if from != facts.FromAll {
		for n := 0; n < c.size.Nodes; n += c.size.Zones {
			service.Nodes = append(service.Nodes, facts.ServiceNode{Name: nodeName(n), Chassis: chassisName(n)})
		}
	}
	return topology.ServiceUnit(service)
}
