package topology

import (
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// Kinds of units.
const (
	KindNetwork = "network"
	KindNode    = "node"
	KindPod     = "pod"
	KindGateway = "gateway"
	// KindTransit is the kind of a zone's connection to the others, and KindTransitNode of a node's part of it.
	KindTransit     = "transit"
	KindTransitNode = "transitnode"
	KindService     = "service"
	// KindEgressFirewall is the kind of a namespace's firewall, KindNodes of the addresses of nodes that a selector
	// selects, and KindDNS of the addresses of a DNS name.
	KindEgressFirewall = "egressfirewall"
	KindNodes          = "nodes"
	KindDNS            = "dns"
	// KindEgressQoS is the kind of a namespace's marks and limits for packets that leave the cluster.
	KindEgressQoS = "egressqos"
	// KindMulticast is the kind of namespaces that request multicast.
	KindMulticast = "multicast"
	// KindExternalRoute is the kind of ExternalRoutes, which have no unit: pods' units have their routes, and gateways' units the BFD
	// sessions with their routers.
	KindExternalRoute = "externalroute"
	// KindEgressIP is the kind of EgressIPs. KindEgressService is the kind of Services whose pods leave with their addresses.
	KindEgressIP      = "egressip"
	KindEgressService = "egressservice"
	// KindLoadBalancerPool is the kind of LoadBalancerPools.
	KindLoadBalancerPool = "loadbalancerpool"
	// KindNetworkPolicy is the kind of NetworkPolicies. KindPodGroup is the kind of the port group of a selector's
	// pods, KindPodSet of their addresses. Both exist while a policy names them.
	KindNetworkPolicy = "networkpolicy"
	KindPodGroup      = "podgroup"
	KindPodSet        = "podset"
	// KindPodNetwork is that of Networks, KindPodNetworkNode of a node's part of a Layer3 Network, and KindPodPorts
	// of a pod's ports on Networks.
	KindPodNetwork     = "podnetwork"
	KindPodNetworkNode = "podnetworknode"
	KindPodPorts       = "podports"
	// KindIPAMClaim is that of IPAMClaims, which have no unit: they keep addresses of pods' ports.
	KindIPAMClaim = "ipamclaim"
	// Kinds of the cluster-wide policies of network-policy-api.
	KindClusterNetworkPolicy       = facts.KindClusterNetworkPolicy
	KindAdminNetworkPolicy         = facts.KindAdminNetworkPolicy
	KindBaselineAdminNetworkPolicy = facts.KindBaselineAdminNetworkPolicy
	// KindMultiNetworkPolicy is the kind of policies for pods' ports on Networks.
	KindMultiNetworkPolicy = "multinetworkpolicy"
)

// NetworkKey returns the unit of the cluster network.
func NetworkKey() unit.Key { return unit.NewKey(KindNetwork, "default") }

// NodeKey returns the unit of a node.
func NodeKey(node string) unit.Key { return unit.NewKey(KindNode, node) }

// GatewayKey returns the unit of a node's gateway.
func GatewayKey(node string) unit.Key { return unit.NewKey(KindGateway, node) }

// PodKey returns the unit of a pod.
func PodKey(namespace, name string) unit.Key { return unit.NewKey(KindPod, namespace, name) }

// EgressFirewallKey returns the unit of a namespace's only firewall.
func EgressFirewallKey(namespace string) unit.Key {
	return unit.NewKey(KindEgressFirewall, namespace, networkv1alpha1.EgressFirewallName)
}

// EgressQoSKey returns the unit of a namespace's only EgressQoS.
func EgressQoSKey(namespace string) unit.Key {
	return unit.NewKey(KindEgressQoS, namespace, networkv1alpha1.EgressQoSName)
}

// MulticastKey returns the unit of a namespace's multicast.
func MulticastKey(namespace string) unit.Key { return unit.NewKey(KindMulticast, namespace) }

// NodesKey returns the unit of the set of nodes' addresses of a selector. hash is the selector's hash.
func NodesKey(hash string) unit.Key { return unit.NewKey(KindNodes, hash) }

// DNSKey returns the unit of the set of a DNS name's addresses.
func DNSKey(name string) unit.Key { return unit.NewKey(KindDNS, name) }

// EgressIPKey returns the unit of an EgressIP, or of a Service by its name among EgressIPs.
func EgressIPKey(name string) unit.Key {
	if service, ok := facts.EgressService(name); ok {
		return unit.NewKey(KindEgressService, service)
	}
	return unit.NewKey(KindEgressIP, name)
}

// OfClusterPolicy reports whether a unit belongs to a cluster-wide policy.
func OfClusterPolicy(key unit.Key) bool { return aclPrefix[key.Kind()] != "" }

// OfNetworkPolicy reports whether a unit belongs to a NetworkPolicy or a MultiNetworkPolicy.
func OfNetworkPolicy(key unit.Key) bool {
	return key.Kind() == KindNetworkPolicy || key.Kind() == KindMultiNetworkPolicy
}

// ClusterPolicyKey returns the unit of a cluster-wide policy.
func ClusterPolicyKey(p facts.ClusterPolicy) unit.Key { return unit.NewKey(p.Kind, p.Name) }

// NetworkPolicyKey returns the unit of a NetworkPolicy.
func NetworkPolicyKey(namespace, name string) unit.Key {
	return unit.NewKey(KindNetworkPolicy, namespace, name)
}

// MultiNetworkPolicyKey returns the unit of a MultiNetworkPolicy.
func MultiNetworkPolicyKey(namespace, name string) unit.Key {
	return unit.NewKey(KindMultiNetworkPolicy, namespace, name)
}

// PodGroupKey returns the unit of the port group of a selector's pods.
func PodGroupKey(s facts.PodSelector) unit.Key {
	return unit.NewKey(KindPodGroup, selectorHash(s.String()))
}

// PodSetKey returns the unit of the sets of the addresses of a selector's pods.
func PodSetKey(s facts.PodSelector) unit.Key {
	return unit.NewKey(KindPodSet, selectorHash(s.String()))
}

// PodNetworkKey is the unit of a Network.
func PodNetworkKey(network string) unit.Key { return unit.NewKey(KindPodNetwork, network) }

// PodNetworkNodeKey is the unit of a node's part of a Network.
func PodNetworkNodeKey(network, node string) unit.Key {
	return unit.NewKey(KindPodNetworkNode, network, node)
}

// PodPortsKey is the unit of all ports of a pod on Networks.
func PodPortsKey(namespace, name string) unit.Key { return unit.NewKey(KindPodPorts, namespace, name) }

func switchRef(name string) unit.Ref {
	return unit.Ref{Table: nbdb.LogicalSwitchTable, UUID: unit.UUID(nbdb.LogicalSwitchTable, name)}
}

func routerRef(name string) unit.Ref {
	return unit.Ref{Table: nbdb.LogicalRouterTable, UUID: unit.UUID(nbdb.LogicalRouterTable, name)}
}

func switchPortUUID(name string) string { return unit.UUID(nbdb.LogicalSwitchPortTable, name) }

func routerPortUUID(name string) string { return unit.UUID(nbdb.LogicalRouterPortTable, name) }
