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

// ServiceProxyLabel is the label of services that are another proxy's (KEP-2447).
const ServiceProxyLabel = "service.kubernetes.io/service-proxy-name"

// ServiceLoadBalancer is a service's load balancer for one protocol ("TCP", "UDP", "SCTP"); scope says where it is: "cluster",
// "node_switch_template_IPv4".
func ServiceLoadBalancer(namespace, service, protocol, scope string) string {
	return "Service_" + namespace + "/" + service + "_" + protocol + "_" + scope
}

// NodeLoadBalancers is the group of load balancers that only one node's switch and gateway router have. It is the key of the node's unit:
// groups cannot say otherwise whose they are.
func NodeLoadBalancers(node string) string { return "node/" + node }

// PodLoadBalancer is the load balancer of a pod's host ports for one protocol; scope tells apart those of a protocol.
func PodLoadBalancer(namespace, pod, protocol, scope string) string {
	return "Pod_" + namespace + "/" + pod + "_" + protocol + "_" + scope
}

// Family is "IPv4" or "IPv6".
func Family(address netip.Addr) string {
	if address.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// NodeAddressVariable is the variable that means each node's own address of a family.
func NodeAddressVariable(family string) string { return "NODEIP_" + family + "_0" }

// AddressVariable is a variable that means an address, the same on every chassis.
func AddressVariable(address netip.Addr) string {
	return "IP_" + hex.EncodeToString(address.AsSlice())
}

// BackendsVariable is the variable that means the backends of a service's port on each node, as chosen ("local", "near"). OVN allows letters,
// digits and underscores in it: the hash tells apart what they cannot.
func BackendsVariable(namespace, service, protocol string, port uint16, family, choice string) string {
	text := fmt.Sprintf("Service_%s_%s_%s_%d_%s_%s", namespace, service, protocol, port, family, choice)
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s/%s", namespace, service)
	return strings.NewReplacer("-", "_", ".", "_").Replace(text) + fmt.Sprintf("_%x", hash.Sum64())
}
