package names

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strings"
)

// Groups of load balancers.
const (
	// ClusterLoadBalancers are on every node's switch and gateway router.
	ClusterLoadBalancers = "clusterLBGroup"
	// SwitchLoadBalancers are on every node's switch.
	SwitchLoadBalancers = "clusterSwitchLBGroup"
	// RouterLoadBalancers are on every node's gateway router.
	RouterLoadBalancers = "clusterRouterLBGroup"
)

// ServiceProxyLabel is the label of services of another proxy (KEP-2447).
const ServiceProxyLabel = "service.kubernetes.io/service-proxy-name"

// ServiceLoadBalancer is a service's load balancer for one protocol ("TCP", "UDP", "SCTP"). scope is where it
// applies: "cluster", "node_switch_template_IPv4".
func ServiceLoadBalancer(namespace, service, protocol, scope string) string {
	return "Service_" + namespace + "/" + service + "_" + protocol + "_" + scope
}

// ofNode separates a scope of ServiceLoadBalancer from the only node that has the balancer. Neither names of services nor of
// nodes have underscores.
const ofNode = "_of_"

// OfNode is the scope of a balancer that only one node has: "cluster_of_n1".
func OfNode(scope, node string) string { return scope + ofNode + node }

// BalancerNode returns the only node that has a load balancer, or an empty string.
func BalancerNode(balancer string) string {
	_, node, _ := strings.Cut(balancer, ofNode)
	return node
}

// NodeLoadBalancers is the group of load balancers that only one node's switch and gateway router have. It is the key
// of the node's unit, because rows of groups have no other place for their owner.
func NodeLoadBalancers(node string) string { return "node/" + node }

// PodLoadBalancer is the load balancer of a pod's host ports for one protocol. scope distinguishes several balancers
// of a protocol.
func PodLoadBalancer(namespace, pod, protocol, scope string) string {
	return "Pod_" + namespace + "/" + pod + "_" + protocol + "_" + scope
}

// Family returns "IPv4" or "IPv6".
func Family(address netip.Addr) string {
	if address.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// NodeAddressVariable is the variable whose value is each node's own address of a family.
func NodeAddressVariable(family string) string { return "NODEIP_" + family + "_0" }

// AddressVariable is a variable whose value is an address, the same on every chassis.
func AddressVariable(address netip.Addr) string {
	return "IP_" + hex.EncodeToString(address.AsSlice())
}

// BackendsVariable is the variable whose value is the backends of a service's port on each node, by choice ("local",
// "near"). OVN allows letters, digits and underscores in it. The hash distinguishes names that differ in other
// characters.
func BackendsVariable(namespace, service, protocol string, port uint16, family, choice string) string {
	text := fmt.Sprintf("Service_%s_%s_%s_%d_%s_%s", namespace, service, protocol, port, family, choice)
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s/%s", namespace, service)
	return strings.NewReplacer("-", "_", ".", "_").Replace(text) + fmt.Sprintf("_%x", hash.Sum64())
}
