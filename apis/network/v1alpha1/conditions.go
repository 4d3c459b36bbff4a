package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Condition types of ClusterNetwork and NodeNetwork.
const (
	// ConditionReady sums up all other conditions.
	ConditionReady = "Ready"
	// ConditionAvailable: the network can be changed, and pods can be attached on some node. On a NodeNetwork: on
	// this node.
	ConditionAvailable = "Available"
	// ConditionProgressing: a change is under way, for example a node is starting. A failed change is not progress.
	ConditionProgressing = "Progressing"
	// ConditionDegraded: spec cannot be applied, or a part of the network fails. Existing rows of the database stay.
	ConditionDegraded = "Degraded"
	// ConditionUpgradeable: an upgrade may begin, because nothing is wrong and no other change is under way.
	ConditionUpgradeable = "Upgradeable"
)

// Further condition types of NodeNetwork. Each is a stage of the node's start.
const (
	// ConditionOVSReady: Open vSwitch answers, and has br-int and its configuration.
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
	// ConditionGatewayAccepted of a NodeNetwork: false while status.gateway has an address of another node, or an
	// address in a network of pods or services. The gateway then stays as it was. A node whose gateway was always
	// accepted does not have the condition.
	ConditionGatewayAccepted = "GatewayAccepted"
	// ConditionGatewayCurrent of a NodeNetwork: false while the node keeps its former spec.gateway until it is its turn to get the changed
	// one of ClusterNetwork. All other NodeNetworks do not have the condition.
	ConditionGatewayCurrent = "GatewayCurrent"
	// ConditionPhysicalNetworksCurrent of a NodeNetwork: false while the node keeps entries of ClusterNetwork's physicalNetworks that were
	// removed, changed or do not select the node any more, because pods use them. All other NodeNetworks do not have the condition.
	ConditionPhysicalNetworksCurrent = "PhysicalNetworksCurrent"
	// ConditionTopologyReady of a NodeNetwork: the node's switch and its ports are in the OVN northbound database.
	ConditionTopologyReady = "TopologyReady"
	// ConditionSubnetsFull of a NodeNetwork in a zone: true while a pod finds no free address in the node's subnets. The
	// reason names the families. The node gets a further subnet if another entry of clusterNetwork has one left. All
	// other NodeNetworks do not have the condition.
	ConditionSubnetsFull = "SubnetsFull"
	// PodPortReady of a Pod: false while the database refuses its port. A pod whose port was never refused does not
	// have it.
	PodPortReady corev1.PodConditionType = GroupName + "/PortReady"
	// PodRequestsGranted of a Pod with a node: false while Weft cannot give the pod an address, or what else its annotations
	// request of the pod network: addresses of an IPPool, a MAC, limits of bandwidth, random host ports. The message says why.
	// A pod without an address waits. A pod whose requests were all granted at once does not have the condition.
	PodRequestsGranted corev1.PodConditionType = GroupName + "/RequestsGranted"
	// PodHostPortsReady of a Pod: false while the pod requests a host port that is reserved, is at an address that its node does
	// not have, is the node port of a service or is the random host port of another pod, or that cannot be read. The message
	// names each such port. The pod's other host ports work. A pod that never requested such a port does not have the condition.
	PodHostPortsReady corev1.PodConditionType = GroupName + "/HostPortsReady"
	// PodNetworksAllocated of a Pod: false while the operator cannot give the pod what it requests of a Network; the
	// message names each request and why. The pod's other networks work. A pod whose requests were all granted does
	// not have it.
	PodNetworksAllocated corev1.PodConditionType = GroupName + "/NetworksAllocated"
	// PodNetworksAttached of a Pod: false while its node cannot attach or detach a network of the running pod; the
	// message names each. A pod whose networks were all attached at once does not have it.
	PodNetworksAttached corev1.PodConditionType = GroupName + "/NetworksAttached"
	// ServiceAddressesReady of a Service: false while the service requests an address or node port that is reserved, or that
	// another service has. The message names each of them. The service's other addresses work. A service that never lacked
	// one does not have the condition.
	ServiceAddressesReady = GroupName + "/AddressesReady"
)

// ReasonReserved of PodHostPortsReady and ServiceAddressesReady: the message names the requested ports and addresses,
// and their owners.
const ReasonReserved = "Reserved"

// ReasonPhysicalNetworkUnknown of a Network: ClusterNetwork's spec.physicalNetworks has no entry for its physical
// network.
const ReasonPhysicalNetworkUnknown = "PhysicalNetworkUnknown"

// ReasonDefinitionExists of a Network: a selected namespace has a NetworkAttachmentDefinition of its name that Weft
// did not make.
const ReasonDefinitionExists = "DefinitionExists"

// ReasonNamespacesInUse of a Network, with Ready True: pods of namespaces that spec.namespaces does not select are attached, and keep
// their interfaces. The message names the namespaces.
const ReasonNamespacesInUse = "NamespacesInUse"

// Reasons of PodNetworksAllocated, PodNetworksAttached, PodRequestsGranted and PodHostPortsReady.
const (
	// ReasonInvalidRequest: the pod's annotation, or a host port of its spec, cannot be read.
	ReasonInvalidRequest = "InvalidRequest"
	// ReasonNotAllocated: a request cannot be granted.
	ReasonNotAllocated = "NotAllocated"
	// ReasonNotAttached: an interface could not be attached or detached; the node tries again.
	ReasonNotAttached = "NotAttached"
)

// ConditionResolved of an EgressFirewall: every DNS name of its rules has an answer. A firewall without DNS names
// does not have the condition.
const ConditionResolved = "Resolved"

// Reasons of conditions.
const (
	// ReasonUnresolvedNames: name servers do not answer for DNS names, or answer without an address. The message
	// names the DNS names and their rules. Previous addresses stay in force while no name server answers.
	ReasonUnresolvedNames = "UnresolvedNames"
	// ReasonAsExpected: nothing is wrong.
	ReasonAsExpected = "AsExpected"
	// ReasonInvalidSpec: spec cannot be applied; the message says why.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonNetworkOverlapsNodes: a network of pods, services or the join switch contains an address of a node or of
	// the API server. The message names both.
	ReasonNetworkOverlapsNodes = "NetworkOverlapsNodes"
	// ReasonInvalidAnnotation: an annotation is invalid; the message says which, and why.
	ReasonInvalidAnnotation = "InvalidAnnotation"
	// ReasonNodesNotReady: the message names the nodes.
	ReasonNodesNotReady = "NodesNotReady"
	// ReasonNetworkLeaving: a network was removed from spec and is still in use; the message says by what.
	ReasonNetworkLeaving = "NetworkLeaving"
	// ReasonPodsOutdated: running pods have other addresses than new pods get, until they are recreated; see
	// status.outdatedPods.
	ReasonPodsOutdated = "PodsOutdated"
	// ReasonSubnetsExhausted: no pod subnet is left for a node; append an entry to clusterNetwork.
	ReasonSubnetsExhausted = "SubnetsExhausted"
	// ReasonAddressesExhausted: no pod address is left. Of a Pod: none of its node.
	ReasonAddressesExhausted = "AddressesExhausted"
	// ReasonIPv4Exhausted of SubnetsFull: no IPv4 address is left.
	ReasonIPv4Exhausted = "IPv4Exhausted"
	// ReasonIPv6Exhausted of SubnetsFull: no IPv6 address is left.
	ReasonIPv6Exhausted = "IPv6Exhausted"
	// ReasonDatabaseUnavailable: the OVN or Open vSwitch database does not answer.
	ReasonDatabaseUnavailable = "DatabaseUnavailable"
	// ReasonMembersUnplaced: there are fewer nodes than members of OVN's databases.
	ReasonMembersUnplaced = "MembersUnplaced"
	// ReasonMemberUnavailable: a member of a database is not connected to the others, which continue without it.
	ReasonMemberUnavailable = "MemberUnavailable"
	// ReasonMembersStarting: a database has no leader yet, or a member is joining.
	ReasonMembersStarting = "MembersStarting"
	// ReasonMembersLeaving: members of the databases leave, until one is left.
	ReasonMembersLeaving = "MembersLeaving"
	// ReasonQuorumLost: too few members of a database are connected to elect a leader.
	ReasonQuorumLost = "QuorumLost"
	// ReasonMembersConflict: members have files of different clusters.
	ReasonMembersConflict = "MembersConflict"
	// ReasonRelayUnavailable: a relay of the southbound database does not work; its nodes use another relay.
	ReasonRelayUnavailable = "RelayUnavailable"
	// ReasonRelaysLost: no relay of the southbound database works; no node sees changes.
	ReasonRelaysLost = "RelaysLost"
	// ReasonRelaysStarting: relays are starting, and no node uses them yet.
	ReasonRelaysStarting = "RelaysStarting"
	// ReasonRelaysUnplaced: there are fewer suitable nodes than relays.
	ReasonRelaysUnplaced = "RelaysUnplaced"
	// ReasonZoneUnavailable: a zone's databases or operator do not work; its nodes see no changes.
	ReasonZoneUnavailable = "ZoneUnavailable"
	// ReasonZoneStarting: a zone's databases or operator do not work yet, and no node is in the zone.
	ReasonZoneStarting = "ZoneStarting"
	// ReasonDatabaseRefused: the database refuses a row; the message contains the database's error.
	ReasonDatabaseRefused = "DatabaseRefused"
	// ReasonDatabaseError: the database refused a write.
	ReasonDatabaseError = "DatabaseError"
	// ReasonDatabaseSchemaTooOld: the database server's schema lacks something that Weft needs; the message names it
	// and the version.
	ReasonDatabaseSchemaTooOld = "DatabaseSchemaTooOld"
	// ReasonDrift: rows of the database differ from the desired state and are not repaired; see status.drift.
	ReasonDrift = "Drift"
	// ReasonInvariantViolated: an invariant does not hold although no change is under way; the message names the
	// invariant of docs/dev/topology.md.
	ReasonInvariantViolated = "InvariantViolated"
	// ReasonNorthdSilent: ovn-northd does not answer, so changes of the northbound database do not reach the
	// southbound database.
	ReasonNorthdSilent = "NorthdSilent"
	// ReasonChangesNotInstalled: all nodes are ready, but for two minutes not every ovn-controller has acknowledged the changes. The
	// server of the southbound database may be unable to write its file, or an ovn-controller may be overloaded.
	ReasonChangesNotInstalled = "ChangesNotInstalled"
	// ReasonAgentStarting: a node's agent is starting or being replaced.
	ReasonAgentStarting = "AgentStarting"
	// ReasonAgentUnavailable: a node's agent cannot start; the message has kubelet's reason.
	ReasonAgentUnavailable = "AgentUnavailable"
	// ReasonVersionsDiffer: agents have another version than the operator.
	ReasonVersionsDiffer = "VersionsDiffer"
	// ReasonUpgrading: another version of the operands is being rolled out; the message describes the progress.
	ReasonUpgrading = "Upgrading"
	// ReasonUpgradeBlocked: another version of the operands is not compatible with the cluster; nothing was replaced.
	ReasonUpgradeBlocked = "UpgradeBlocked"
	// ReasonUpgradeStopped: replaced operands do not work; the others stay as they are.
	ReasonUpgradeStopped = "UpgradeStopped"
	// ReasonNodeLost: the node's kubelet has stopped reporting.
	ReasonNodeLost = "NodeLost"
	// ReasonTunnelSilent: a node is ready, but its management port does not answer the operator's node through the
	// network.
	ReasonTunnelSilent = "TunnelSilent"
	// ReasonMTUMismatch: a link is too small for the requested MTU, or links differ. Of a Network: its spec.mtu is not in effect.
	ReasonMTUMismatch = "MTUMismatch"
	// ReasonServiceNetworkMismatch: the API server assigns cluster IPs outside of serviceNetwork, or none from one of
	// its networks.
	ReasonServiceNetworkMismatch = "ServiceNetworkMismatch"
	// ReasonWaitingForSpec: the operator has not written the required part of spec yet.
	ReasonWaitingForSpec = "WaitingForSpec"
	// ReasonWaitingForAgent: the node's agent has not reported yet.
	ReasonWaitingForAgent = "WaitingForAgent"
	// ReasonControllerUnavailable: ovn-controller does not run, or does not answer.
	ReasonControllerUnavailable = "ControllerUnavailable"
	// ReasonWaitingForChassis: ovn-controller has not registered the Chassis yet.
	ReasonWaitingForChassis = "WaitingForChassis"
	// ReasonNotReady: a condition that this condition sums up is not true; the message names it.
	ReasonNotReady = "NotReady"
	// ReasonWaitingForTopology: the operator's rows for this node have not reached the node yet.
	ReasonWaitingForTopology = "WaitingForTopology"
	// ReasonNoUplink: on the userspace datapath, no bridge of the datapath has the encapsulation address. Of
	// GatewayReady: no link leads outside, or OVN cannot use it.
	ReasonNoUplink = "NoUplink"
	// ReasonAddressConflict: an address belongs to another node; the message names both nodes. Of a Network: an attached pod has the
	// address of a machine on the segment; the message names both. Of a Service: another service has its address.
	ReasonAddressConflict = "AddressConflict"
	// ReasonUplinkWaiting: the node's link must be moved onto an Open vSwitch bridge, but it is not the node's turn.
	ReasonUplinkWaiting = "UplinkWaiting"
	// ReasonUplinkMoving: the node's link is being moved onto an Open vSwitch bridge.
	ReasonUplinkMoving = "UplinkMoving"
	// ReasonUplinkRefused: the node's link cannot be moved onto a bridge, and nothing was changed; the message says
	// why.
	ReasonUplinkRefused = "UplinkRefused"
	// ReasonUplinkRolledBack: the node's link was moved onto a bridge and back, because another host no longer
	// answered.
	ReasonUplinkRolledBack = "UplinkRolledBack"
	// ReasonNoPortAddress: spec.gateway.nodePortAddresses has none of the node's addresses, so that no node port or host port is
	// served.
	ReasonNoPortAddress = "NoPortAddress"
	// ReasonGatewayWaiting: the node keeps its former spec.gateway until the changed one works on other nodes.
	ReasonGatewayWaiting = "GatewayWaiting"
	// ReasonGatewayStopped: a changed spec.gateway does not work on a node, and other nodes keep their former one; the message names the
	// fields, the node, why, and the other nodes.
	ReasonGatewayStopped = "GatewayStopped"
	// ReasonForeignChanges: another program keeps changing what Weft writes on the node, and the agent repairs it; the message names both.
	ReasonForeignChanges = "ForeignChanges"
	// ReasonForwardingBlocked: a firewall of the node drops packets that the host forwards for pods; the message names table and chain,
	// and what to add.
	ReasonForwardingBlocked = "ForwardingBlocked"
	// ReasonPhysicalNetworksInUse: pods use physical networks that ClusterNetwork's spec does not have for the node any more, and keep
	// them; the message names both, and how to take them away.
	ReasonPhysicalNetworksInUse = "PhysicalNetworksInUse"
	// ReasonHostError: the node's kernel or file system refused a change.
	ReasonHostError = "HostError"
)
