// Package names defines every name that Weft writes into OVN and Open vSwitch, in the conventional form of OVN CNIs.
// A literal name elsewhere is a bug.
package names

import "strings"

// Names that exist once.
const (
	// ClusterRouter is the distributed router between all node switches.
	ClusterRouter = "ovn_cluster_router"
	// JoinSwitch connects the cluster router with the gateway routers.
	JoinSwitch = "join"
	// RefusalPort is the port of the join switch whose packets are refused. It has no chassis.
	RefusalPort = "refusal"
	// ManagementInterface is the host's end of the management port.
	ManagementInterface = "ovn-k8s-mp0"
	// EgressInterface is the host's end of the egress port.
	EgressInterface = "weft-egress0"
)

// NodeSwitch is the node's logical switch. A Node may have the name of a switch that exists once.
func NodeSwitch(node string) string {
	if node == JoinSwitch || node == TransitSwitch {
		return node + "_node" // no Node has a name with an underscore
	}
	return node
}

// RouterToSwitch is the cluster router's port to the node's switch.
func RouterToSwitch(node string) string { return "rtos-" + node }

// SwitchToRouter is the port of the node's switch to the cluster router.
func SwitchToRouter(node string) string { return "stor-" + node }

// RouterToJoin is a router's port to the join switch.
func RouterToJoin(router string) string { return "rtoj-" + router }

// JoinToRouter is the join switch's port to a router.
func JoinToRouter(router string) string { return "jtor-" + router }

// EgressRouter is a node's gateway router in Local mode, which only carries egress IPs.
func EgressRouter(node string) string { return "ER_" + node }

// GatewayRouter is the node's gateway router.
func GatewayRouter(node string) string { return "GR_" + node }

// ExternalSwitch is the node's switch that leads outside.
func ExternalSwitch(node string) string { return "ext_" + node }

// RouterToExternal is a gateway router's port to its external switch.
func RouterToExternal(router string) string { return "rtoe-" + router }

// NodeOutside returns the node of RouterToExternal's port.
func NodeOutside(port string) string {
	return strings.TrimPrefix(port, RouterToExternal(GatewayRouter("")))
}

// ExternalToRouter is the port of the external switch to its gateway router.
func ExternalToRouter(router string) string { return "etor-" + router }

// Localnet is the port of the node's external switch that represents a bridge of the node. ovn-controller connects
// the bridge with br-int by a pair of patch ports whose names contain this name.
func Localnet(bridge, node string) string { return bridge + "_" + node }

// PatchToIntegration is the external bridge's end of that pair.
func PatchToIntegration(localnet string) string {
	return "patch-" + localnet + "-to-" + IntegrationBridge
}

// PhysicalNetwork is the name of the network outside in a node's bridge mappings.
const PhysicalNetwork = "physnet"

// ManagementPort is the host's port on its node's switch, and the iface-id of ManagementInterface.
func ManagementPort(node string) string { return "k8s-" + node }

// EgressPort is the host's port on the external switch of its node in Local mode, and the iface-id of EgressInterface.
func EgressPort(node string) string { return "egress-" + node }

// PodPort is the pod's port on a network, and the iface-id of its interface. Neither a namespace nor a pod's name can
// contain an underscore, so that the name is unambiguous. The default network has no prefix.
func PodPort(network, namespace, pod string) string {
	name := namespace + "_" + pod
	if network == DefaultNetwork {
		return name
	}
	return network + "_" + name
}

// DefaultNetwork is the name of the cluster's own network.
const DefaultNetwork = "default"

// ParsePodPort is the reverse of PodPort for the default network. ok is false for other ports.
func ParsePodPort(port string) (namespace, pod string, ok bool) {
	namespace, pod, ok = strings.Cut(port, "_")
	if strings.Contains(pod, "_") {
		return "", "", false
	}
	return namespace, pod, ok
}

// NetworkPort is a pod's port on a Network, and the iface-id of that interface. Names of Networks, namespaces and
// pods have no underscore, so the name is unambiguous.
func NetworkPort(network, namespace, pod, ifName string) string {
	return network + "_" + namespace + "_" + pod + "_" + ifName
}

// PodOfPort returns the pod of a port on any network; ok is false for other ports.
func PodOfPort(port string) (namespace, pod string, ok bool) {
	if namespace, pod, ok = ParsePodPort(port); ok {
		return namespace, pod, true
	}
	const parts = 4
	if split := strings.SplitN(port, "_", parts); len(split) == parts {
		return split[1], split[2], true
	}
	return "", "", false
}

// NetworkSwitch is the switch of a Network that spans all nodes, and NetworkNodeSwitch that of a node.
func NetworkSwitch(network string) string { return "net_" + network }

// NetworkNodeSwitch is a node's switch of a Network with a router.
func NetworkNodeSwitch(network, node string) string { return "net_" + network + "_" + node }

// NetworkLocalnet is the port of a Network's switch that represents a bridge of each node.
func NetworkLocalnet(network string) string { return "net_" + network + "_localnet" }

// NetworkRouter is the router of a Network between its nodes' switches.
func NetworkRouter(network string) string { return "netr_" + network }

// IntegrationBridge is the bridge that ovn-controller programs. It has every pod's port.
const IntegrationBridge = "br-int"
