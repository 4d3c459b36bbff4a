package topology

import (
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// Kinds of units.
const (
	KindNetwork = "network"
	KindNode    = "node"
	KindPod     = "pod"
	KindGateway = "gateway"
	KindService = "service"
	// KindEgressFirewall is of one namespace, KindNodes of the addresses of nodes that a selector selects, KindDNS of those of a DNS name.
	KindEgressFirewall = "egressfirewall"
	KindNodes          = "nodes"
	KindDNS            = "dns"
	// KindEgressIP is the kind of EgressIPs.
	KindEgressIP = "egressip"
	// KindNetworkPolicy is that of NetworkPolicies. KindPodGroup is of the port group of the pods of a selector, KindPodSet of their addresses: they
	// are there while a policy names them.
	KindNetworkPolicy = "networkpolicy"
	KindPodGroup      = "podgroup"
	KindPodSet        = "podset"
	// These are the kinds of network-policy-api, policies of the whole cluster.
	KindClusterNetworkPolicy       = "clusternetworkpolicy"
	KindAdminNetworkPolicy         = "adminnetworkpolicy"
	KindBaselineAdminNetworkPolicy = "baselineadminnetworkpolicy"
)

// NetworkKey is the unit of the cluster network.
func NetworkKey() unit.Key { return unit.NewKey(KindNetwork, "default") }

// NodeKey is the unit of a node.
func NodeKey(node string) unit.Key { return unit.NewKey(KindNode, node) }

// GatewayKey is the unit of a node's gateway.
func GatewayKey(node string) unit.Key { return unit.NewKey(KindGateway, node) }

// PodKey is the unit of a pod.
func PodKey(namespace, name string) unit.Key { return unit.NewKey(KindPod, namespace, name) }

// EgressFirewallKey is the unit of a namespace's firewall, of which there is one.
func EgressFirewallKey(namespace string) unit.Key {
	return unit.NewKey(KindEgressFirewall, namespace, networkv1alpha1.EgressFirewallName)
}

// NodesKey is the unit of the set of nodes' addresses of a selector, by the selector's hash.
func NodesKey(hash string) unit.Key { return unit.NewKey(KindNodes, hash) }

// DNSKey is the unit of the set of a DNS name's addresses.
func DNSKey(name string) unit.Key { return unit.NewKey(KindDNS, name) }

// EgressIPKey is the unit of an EgressIP.
func EgressIPKey(name string) unit.Key { return unit.NewKey(KindEgressIP, name) }

// OfClusterPolicy reports whether a unit is that of a policy of the whole cluster.
func OfClusterPolicy(key unit.Key) bool { return aclPrefix[key.Kind()] != "" }

// NetworkPolicyKey is the unit of a NetworkPolicy.
func NetworkPolicyKey(namespace, name string) unit.Key {
	return unit.NewKey(KindNetworkPolicy, namespace, name)
}

func switchRef(name string) unit.Ref {
	return unit.Ref{Table: nbdb.LogicalSwitchTable, UUID: unit.UUID(nbdb.LogicalSwitchTable, name)}
}

func routerRef(name string) unit.Ref {
	return unit.Ref{Table: nbdb.LogicalRouterTable, UUID: unit.UUID(nbdb.LogicalRouterTable, name)}
}

func switchPortUUID(name string) string { return unit.UUID(nbdb.LogicalSwitchPortTable, name) }

func routerPortUUID(name string) string { return unit.UUID(nbdb.LogicalRouterPortTable, name) }
