package health

import networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"

// cause is who or what makes a condition bad.
type cause int

const (
	// broken: a part of the network fails, or an administrator wrote what cannot be applied.
	broken cause = iota
	// underway: the condition becomes good by itself. If it does not, another condition says why.
	underway
	// requested: the owner of a namespace can cause it there. It must not block an upgrade.
	requested
	// intended: nobody waits.
	intended
)

// conditionOf is a condition of a kind.
type conditionOf struct{ kind, condition string }

// judgement says what a condition means that is not true, by its reason.
type judgement struct {
	area   networkv1alpha1.AreaName
	causes map[string]cause
}

// ofPolicy judges the kinds of network-policy-api.
var ofPolicy = judgement{networkv1alpha1.AreaTopology, map[string]cause{
	networkv1alpha1.ReasonInvalidSpec: broken, networkv1alpha1.ReasonDatabaseRefused: broken,
}}

// judgements are the conditions that Weft writes, without the conditions of NodeNetworks and of the ClusterNetwork. A reason that is
// not listed counts as requested in a namespace, and otherwise as broken.
var judgements = map[conditionOf]judgement{
	{"Network", networkv1alpha1.ConditionReady}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonInvalidSpec: broken, networkv1alpha1.ReasonPhysicalNetworkUnknown: broken,
		networkv1alpha1.ReasonDatabaseRefused: broken, networkv1alpha1.ReasonDefinitionExists: requested,
		networkv1alpha1.ReasonAddressConflict: broken, networkv1alpha1.ReasonMTUMismatch: broken,
	}},
	{"EgressIP", networkv1alpha1.ConditionAssigned}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonInvalidSpec: broken, networkv1alpha1.ReasonNoAssignableNode: broken,
		networkv1alpha1.ReasonNotOnNodeNetwork: broken, networkv1alpha1.ReasonAddressInUse: broken,
		networkv1alpha1.ReasonNodesUnreachable: broken, networkv1alpha1.ReasonDatabaseRefused: broken,
		networkv1alpha1.ReasonDatabaseSchemaTooOld: broken, networkv1alpha1.ReasonProbing: underway,
	}},
	{"ExternalRoute", networkv1alpha1.ConditionReady}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonInvalidSpec: broken, networkv1alpha1.ReasonDatabaseSchemaTooOld: broken,
		networkv1alpha1.ReasonNoNextHop: requested, networkv1alpha1.ReasonNextHopsUnusable: requested, // routers may be pods
		networkv1alpha1.ReasonNextHopsDown: requested,
	}},
	{"IPPool", networkv1alpha1.ConditionReady}: {networkv1alpha1.AreaAddresses, map[string]cause{
		networkv1alpha1.ReasonInvalidSpec: broken, networkv1alpha1.ReasonRangeOverlaps: broken,
		networkv1alpha1.ReasonRangeOutside: broken, networkv1alpha1.ReasonRangeInUse: broken,
	}},
	{"LoadBalancerPool", networkv1alpha1.ConditionReady}: {networkv1alpha1.AreaAddresses, map[string]cause{
		networkv1alpha1.ReasonInvalidSpec: broken, networkv1alpha1.ReasonRangeOverlaps: broken,
	}},
	{"LoadBalancerPool", networkv1alpha1.ConditionAnnounced}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonNoEligibleNode: broken, networkv1alpha1.ReasonNotOnNodeNetwork: broken,
		networkv1alpha1.ReasonNotAdvertised: broken, networkv1alpha1.ReasonDatabaseRefused: broken,
		networkv1alpha1.ReasonDatabaseSchemaTooOld: broken, networkv1alpha1.ReasonNoLocalEndpoints: requested,
	}},
	{"BGPPeer", networkv1alpha1.ConditionEstablished}: {networkv1alpha1.AreaNodes, map[string]cause{
		networkv1alpha1.ReasonInvalidSpec: broken, networkv1alpha1.ReasonNoNode: broken, networkv1alpha1.ReasonPeerConflict: broken,
		networkv1alpha1.ReasonSessionsDown: underway, // the NodeNetwork's RoutesAnnounced reports a session that failed
	}},
	{"BGPPeer", networkv1alpha1.ConditionBFDUp}: {networkv1alpha1.AreaNodes, map[string]cause{
		networkv1alpha1.ReasonInvalidSpec: broken, networkv1alpha1.ReasonNoNode: broken, networkv1alpha1.ReasonPeerConflict: broken,
		networkv1alpha1.ReasonBFDDown: underway,
	}},
	{"BGPAdvertisement", networkv1alpha1.ConditionAdvertised}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonInvalidSpec: broken, networkv1alpha1.ReasonNoPeer: broken, networkv1alpha1.ReasonTooManyRoutes: broken,
		networkv1alpha1.ReasonNothingSelected: requested, networkv1alpha1.ReasonNotAnnounced: requested, // what Services have
	}},
	{"EgressFirewall", networkv1alpha1.ConditionReady}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonInvalidSpec: requested, networkv1alpha1.ReasonDatabaseRefused: requested,
	}},
	{"EgressFirewall", networkv1alpha1.ConditionResolved}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonInvalidSpec: requested, networkv1alpha1.ReasonUnresolvedNames: requested,
	}},
	{"EgressQoS", networkv1alpha1.ConditionReady}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonInvalidSpec: requested, networkv1alpha1.ReasonDatabaseRefused: requested,
	}},
	{"ClusterNetworkPolicy", networkv1alpha1.ConditionReady}:       ofPolicy,
	{"AdminNetworkPolicy", networkv1alpha1.ConditionReady}:         ofPolicy,
	{"BaselineAdminNetworkPolicy", networkv1alpha1.ConditionReady}: ofPolicy,
	{"Pod", string(networkv1alpha1.PodPortReady)}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonDatabaseRefused: requested,
	}},
	{"Pod", string(networkv1alpha1.PodHostPortsReady)}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonReserved: requested, networkv1alpha1.ReasonInvalidRequest: requested,
	}},
	{"Pod", string(networkv1alpha1.PodRequestsGranted)}: {networkv1alpha1.AreaAddresses, map[string]cause{
		networkv1alpha1.ReasonInvalidRequest: requested, networkv1alpha1.ReasonAddressUnavailable: requested,
		networkv1alpha1.ReasonAddressesExhausted: requested, // the NodeNetwork reports a node whose subnets are full
	}},
	{"Pod", string(networkv1alpha1.PodNetworksAllocated)}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonInvalidRequest: requested, networkv1alpha1.ReasonNotAllocated: requested,
	}},
	{"Pod", string(networkv1alpha1.PodNetworksAttached)}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonNotAttached: requested,
	}},
	{"Pod", string(networkv1alpha1.PodFloatingIP)}: {networkv1alpha1.AreaAddresses, map[string]cause{
		networkv1alpha1.ReasonAddressUnavailable: requested, networkv1alpha1.ReasonAddressFreed: requested,
	}},
	{"Service", networkv1alpha1.ServiceAddressesReady}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonReserved: requested, networkv1alpha1.ReasonAddressConflict: requested,
	}},
	{"Service", networkv1alpha1.ServiceLoadBalancerReady}: {networkv1alpha1.AreaAddresses, map[string]cause{
		networkv1alpha1.ReasonNoPool: requested, networkv1alpha1.ReasonPoolExhausted: requested, networkv1alpha1.ReasonProbing: underway,
		networkv1alpha1.ReasonInvalidRequest: requested, networkv1alpha1.ReasonAddressUnavailable: requested,
	}},
	{"Service", networkv1alpha1.ServiceEgressSource}: {networkv1alpha1.AreaTopology, map[string]cause{
		networkv1alpha1.ReasonInvalidAnnotation: requested, networkv1alpha1.ReasonNotAnswered: requested,
		networkv1alpha1.ReasonDatabaseRefused: requested, networkv1alpha1.ReasonNotRequested: intended,
		networkv1alpha1.ReasonAddressShared: requested,
	}},
}
