package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Condition types of ClusterNetwork and NodeNetwork.
const (
	// ConditionReady sums up all others.
	ConditionReady = "Ready"
	// ConditionAvailable: the network can be changed, and pods can be attached on some node; of a NodeNetwork: on this one.
	ConditionAvailable = "Available"
	// ConditionProgressing: something is on its way, such as a node that starts. One that failed is no progress.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is true when spec cannot be applied or part of the network cannot be kept: what is in the
	// database stays.
	ConditionDegraded = "Degraded"
	// ConditionUpgradeable: an upgrade may begin: nothing is wrong, and no other change is under way.
	ConditionUpgradeable = "Upgradeable"
)

// Further condition types of NodeNetwork, each one stage of the node's start.
const (
	// ConditionOVSReady: Open vSwitch answers and holds br-int and its configuration.
	ConditionOVSReady = "OVSReady"
	// ConditionControllerReady: ovn-controller runs and this node's Chassis is registered.
	ConditionControllerReady = "ControllerReady"
	// ConditionManagementPortReady: the management port has its addresses and routes.
	ConditionManagementPortReady = "ManagementPortReady"
	// ConditionCNIReady: the CNI server listens and its configuration is in place for the runtime.
	ConditionCNIReady = "CNIReady"
	// ConditionGatewayReady: traffic leaves and enters the cluster through this node.
	ConditionGatewayReady = "GatewayReady"
)

// Further condition types that the operator writes.
const (
	// ConditionGatewayAccepted of a NodeNetwork: false while status.gateway has an address that is another node's; the gateway stays as it was. A
	// node of which that was never so does not have it.
	ConditionGatewayAccepted = "GatewayAccepted"
	// ConditionTopologyReady of a NodeNetwork: the node's switch and its ports are in the OVN northbound database.
	ConditionTopologyReady = "TopologyReady"
	// PodPortReady of a Pod: false while the database refuses its port. A pod that was never refused does not have it.
	PodPortReady corev1.PodConditionType = GroupName + "/PortReady"
)

// ConditionResolved of an EgressFirewall: every DNS name of its rules has an answer. One without such rules does not have it.
const ConditionResolved = "Resolved"

// Reasons of conditions.
const (
	// ReasonUnresolvedNames: name servers do not answer for DNS names, or say that they have no address; the message names them and their
	// rules. What was known before stays as long as nobody answers.
	ReasonUnresolvedNames = "UnresolvedNames"
	// ReasonAsExpected: nothing is wrong.
	ReasonAsExpected = "AsExpected"
	// ReasonInvalidSpec: spec cannot be applied; the message says why.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonInvalidAnnotation: an annotation cannot be read; the message says which, and why.
	ReasonInvalidAnnotation = "InvalidAnnotation"
	// ReasonNodesNotReady: the message names the nodes.
	ReasonNodesNotReady = "NodesNotReady"
	// ReasonSubnetsExhausted: no pod subnet is left for a node; append to clusterNetwork.
	ReasonSubnetsExhausted = "SubnetsExhausted"
	// ReasonAddressesExhausted: no pod address is left.
	ReasonAddressesExhausted = "AddressesExhausted"
	// ReasonDatabaseUnavailable: the OVN or Open vSwitch database does not answer.
	ReasonDatabaseUnavailable = "DatabaseUnavailable"
	// ReasonMembersUnplaced: there are fewer nodes than members of OVN's databases.
	ReasonMembersUnplaced = "MembersUnplaced"
	// ReasonMemberUnavailable: a member of a database is not connected to the others, which go on without it.
	ReasonMemberUnavailable = "MemberUnavailable"
	// ReasonMembersStarting: a database has no leader yet, or a member joins it.
	ReasonMembersStarting = "MembersStarting"
	// ReasonQuorumLost: too few members of a database hear each other for one to lead.
	ReasonQuorumLost = "QuorumLost"
	// ReasonMembersConflict: members have files of different clusters.
	ReasonMembersConflict = "MembersConflict"
	// ReasonDatabaseRefused: the database refuses a row; the message has its own words.
	ReasonDatabaseRefused = "DatabaseRefused"
	// ReasonDatabaseError: the database refused a write.
	ReasonDatabaseError = "DatabaseError"
	// ReasonDatabaseSchemaTooOld: the database server's schema lacks what Weft needs; the message names it and the version.
	ReasonDatabaseSchemaTooOld = "DatabaseSchemaTooOld"
	// ReasonDrift: rows of the database differ from what they should be, and are left as they are; see status.drift.
	ReasonDrift = "Drift"
	// ReasonInvariantViolated: something is not as it always is at rest; the message names an invariant of docs/topology.md.
	ReasonInvariantViolated = "InvariantViolated"
	// ReasonNorthdSilent: ovn-northd does not answer: what is in the northbound database does not reach the southbound one.
	ReasonNorthdSilent = "NorthdSilent"
	// ReasonAgentStarting: a node's agent starts, or is being replaced.
	ReasonAgentStarting = "AgentStarting"
	// ReasonAgentUnavailable: a node's agent cannot start; the message has kubelet's reason.
	ReasonAgentUnavailable = "AgentUnavailable"
	// ReasonVersionsDiffer: agents are of another version than the operator.
	ReasonVersionsDiffer = "VersionsDiffer"
	// ReasonUpgrading: operands of another version are rolled out; the message says how far it is.
	ReasonUpgrading = "Upgrading"
	// ReasonUpgradeBlocked: operands of another version do not fit what is there; none was replaced.
	ReasonUpgradeBlocked = "UpgradeBlocked"
	// ReasonUpgradeStopped: operands that were replaced do not work; the others stay as they are.
	ReasonUpgradeStopped = "UpgradeStopped"
	// ReasonNodeLost: Kubernetes hears nothing of the node's kubelet.
	ReasonNodeLost = "NodeLost"
	// ReasonTunnelSilent: a node is ready, and its management port does not answer the operator's node through the network.
	ReasonTunnelSilent = "TunnelSilent"
	// ReasonMTUMismatch: a link is too small for the MTU asked for.
	ReasonMTUMismatch = "MTUMismatch"
	// ReasonServiceNetworkMismatch: the API server gives cluster IPs that nodes do not route to services, or none of a network that they do.
	ReasonServiceNetworkMismatch = "ServiceNetworkMismatch"
	// ReasonWaitingForSpec: the operator has not written what this needs yet.
	ReasonWaitingForSpec = "WaitingForSpec"
	// ReasonWaitingForAgent: the node's agent has not reported yet.
	ReasonWaitingForAgent = "WaitingForAgent"
	// ReasonControllerUnavailable: ovn-controller does not run, or does not answer.
	ReasonControllerUnavailable = "ControllerUnavailable"
	// ReasonWaitingForChassis: ovn-controller has not registered the Chassis yet.
	ReasonWaitingForChassis = "WaitingForChassis"
	// ReasonNotReady: a condition that this one sums up is not true; the message names it.
	ReasonNotReady = "NotReady"
	// ReasonWaitingForTopology: what the operator makes in the OVN databases for this node has not reached it yet.
	ReasonWaitingForTopology = "WaitingForTopology"
	// ReasonNoUplink: on the userspace datapath, the encapsulation address is on no bridge of it; of GatewayReady: no link leads outside, or
	// OVN cannot use it.
	ReasonNoUplink = "NoUplink"
	// ReasonAddressConflict: an address is another node's; the message names both.
	ReasonAddressConflict = "AddressConflict"
	// ReasonUplinkWaiting: the node's link is to be moved onto an Open vSwitch bridge, and it is not the node's turn.
	ReasonUplinkWaiting = "UplinkWaiting"
	// ReasonUplinkMoving: the node's link is on its way onto an Open vSwitch bridge.
	ReasonUplinkMoving = "UplinkMoving"
	// ReasonUplinkRefused: the node's link is not moved onto a bridge, and nothing was changed; the message says why.
	ReasonUplinkRefused = "UplinkRefused"
	// ReasonUplinkRolledBack: the node's link was moved onto a bridge and came back, because somebody did not answer any more.
	ReasonUplinkRolledBack = "UplinkRolledBack"
	// ReasonHostError: the node's kernel or file system refused a change.
	ReasonHostError = "HostError"
)
