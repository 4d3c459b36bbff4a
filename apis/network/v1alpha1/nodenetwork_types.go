package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Node IDs. They become part of tunnel keys, so the range is closed.
const (
	MinNodeID = 1
	MaxNodeID = 16000
)

// NodeNetwork is one node's part of the network and has the name of its Node. The operator writes spec, what the node
// shall have; the node's agent writes status, what it has.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nn
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="ID",type=integer,JSONPath=`.spec.nodeID`
// +kubebuilder:printcolumn:name="Subnets",type=string,JSONPath=`.spec.podSubnets`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.addresses.free`,description="pod addresses not in use"
// +kubebuilder:printcolumn:name="Chassis",type=string,priority=1,JSONPath=`.status.chassis`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec NodeNetworkSpec `json:"spec"`
	// +optional
	Status NodeNetworkStatus `json:"status,omitempty,omitzero"`
}

// NodeNetworkList is a list of NodeNetworks.
//
// +kubebuilder:object:root=true
type NodeNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeNetwork `json:"items"`
}

// NodeNetworkSpec is written by the operator and read by the node's agent: everything the agent needs, so that it
// never reads ClusterNetwork.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.nodeID) || (has(self.nodeID) && self.nodeID == oldSelf.nodeID)",message="nodeID is immutable once set",reason=FieldValueForbidden,fieldPath=.nodeID
type NodeNetworkSpec struct {
	// nodeID numbers the node, 1..16000, unique among the NodeNetworks. Immutable once set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16000
	NodeID int32 `json:"nodeID,omitempty"`

	// podSubnets are the node's pod subnets, the first of a family being the one that addresses come from first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	PodSubnets []CIDR `json:"podSubnets,omitempty"`

	// gateways are the addresses of the cluster router in podSubnets, in the same order: the .1 of each.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Gateways []IP `json:"gateways,omitempty"`

	// joinAddresses are the addresses of the node's gateway router on the join switch, one per family.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	JoinAddresses []InterfaceAddress `json:"joinAddresses,omitempty"`

	// managementPort is the host's own port on the node's switch.
	// +optional
	ManagementPort ManagementPort `json:"managementPort,omitempty,omitzero"`

	// clusterSubnets are the CIDRs of all pods of the cluster: the host routes them to the management port.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	ClusterSubnets []CIDR `json:"clusterSubnets,omitempty"`

	// serviceSubnets are the CIDRs of cluster IPs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	ServiceSubnets []CIDR `json:"serviceSubnets,omitempty"`

	// mtu is the MTU of pod interfaces and the management port in bytes; 0 while it is not known yet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65000
	MTU int32 `json:"mtu,omitempty"`

	// +optional
	Encapsulation Encapsulation `json:"encapsulation,omitempty,omitzero"`

	// gateway is what of ClusterNetwork's gateway holds for this node.
	// +optional
	Gateway NodeGateway `json:"gateway,omitempty,omitzero"`

	// dns is the cluster's, for CNI results.
	// +optional
	DNS DNS `json:"dns,omitempty,omitzero"`
}

// NodeGateway is what the agent shall make of the node's link to the outside.
type NodeGateway struct {
	// +optional
	Mode GatewayMode `json:"mode,omitempty"`
	// +optional
	Uplink UplinkType `json:"uplink,omitempty"`

	// interface is the bridge or link; empty: the one with the default route.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Interface string `json:"interface,omitempty"`

	// nextHops are the routers outside, at most one per family; empty: those of the default routes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	NextHops []IP `json:"nextHops,omitempty"`

	// +optional
	SNAT SNATPolicy `json:"snat,omitempty"`

	// move is the move of a link that the node may make: what status.move asks for, when it is this node's turn.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Move string `json:"move,omitempty"`
}

// ManagementPort is the host's own port on its node's switch.
type ManagementPort struct {
	// +optional
	MACAddress MACAddress `json:"macAddress,omitempty"`

	// addresses are the host's addresses in podSubnets, in the same order: the .2 of each.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Addresses []InterfaceAddress `json:"addresses,omitempty"`
}

// DatapathType is the Open vSwitch datapath of the integration bridge.
//
// +kubebuilder:validation:Enum=system;netdev
type DatapathType string

const (
	// DatapathSystem is the kernel's datapath.
	DatapathSystem DatapathType = "system"
	// DatapathNetdev is the userspace datapath, where the kernel has none.
	DatapathNetdev DatapathType = "netdev"
)

// NodeNetworkStatus is written by the node's agent.
type NodeNetworkStatus struct {
	// observedGeneration is the metadata.generation that this status speaks about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready sums up OVSReady, ControllerReady, ManagementPortReady and CNIReady, and the operator's TopologyReady; Available is the
	// same. Progressing, Degraded and Upgradeable sum up all of them, as those of ClusterNetwork do; their messages are the worst problem.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// problems are what is wrong on this node, the worst first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Problems []Problem `json:"problems,omitempty"`

	// chassis is the system-id of the node's Open vSwitch: the name of its Chassis.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Chassis string `json:"chassis,omitempty"`

	// encapIP is the address that other nodes tunnel to.
	// +optional
	EncapIP IP `json:"encapIP,omitempty"`

	// encapType is the tunnel protocol in use.
	// +optional
	EncapType EncapsulationType `json:"encapType,omitempty"`

	// datapathType is the datapath of br-int.
	// +optional
	DatapathType DatapathType `json:"datapathType,omitempty"`

	// linkMTU is the MTU in bytes of the link that holds encapIP, before encapsulation.
	// +optional
	LinkMTU int32 `json:"linkMTU,omitempty"`

	// managementPort is the host's port as it is.
	// +optional
	ManagementPort ManagementPortStatus `json:"managementPort,omitempty,omitzero"`

	// gateway is the node's link to the outside as it is; absent while the agent has none to offer.
	// +optional
	Gateway *NodeGatewayStatus `json:"gateway,omitempty"`

	// move is the move of a link onto a bridge that the node asks for, "eth0 Bridge"; absent when there is none to be made.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Move string `json:"move,omitempty"`

	// agentVersion is the version of the agent that wrote this.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AgentVersion string `json:"agentVersion,omitempty"`

	// ovsVersion is the version of Open vSwitch.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	OVSVersion string `json:"ovsVersion,omitempty"`

	// ovnVersion is the version of ovn-controller, when it tells.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	OVNVersion string `json:"ovnVersion,omitempty"`

	// probe is the answer to the request in the annotation network.weft.dev/probe; absent when there was none.
	// +optional
	Probe *ProbeStatus `json:"probe,omitempty"`

	// addresses counts the addresses of podSubnets; absent while podSubnets is not known.
	// +optional
	Addresses *AddressCounts `json:"addresses,omitempty"`

	// pods is the number of pods with an interface on this node.
	// +optional
	Pods int32 `json:"pods,omitempty"`
}

// NodeGatewayStatus is the node's link to the outside as it is: what its gateway router is built from.
type NodeGatewayStatus struct {
	// mode is the one in effect.
	// +optional
	Mode GatewayMode `json:"mode,omitempty"`
	// +optional
	Uplink UplinkType `json:"uplink,omitempty"`

	// bridge is the Open vSwitch bridge that leads outside.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Bridge string `json:"bridge,omitempty"`

	// interface is the bridge's port that leads outside.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Interface string `json:"interface,omitempty"`

	// macAddress is what the gateway router has outside: the host's, when they share the link.
	// +optional
	MACAddress MACAddress `json:"macAddress,omitempty"`

	// addresses are what the gateway router has outside, one per family, with the length of their subnets.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	Addresses []InterfaceAddress `json:"addresses,omitempty"`

	// nextHops are the routers outside, at most one per family.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	NextHops []IP `json:"nextHops,omitempty"`
}

// ManagementPortStatus is the host's port as it is.
type ManagementPortStatus struct {
	// name is the name of the link.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Name string `json:"name,omitempty"`
	// +optional
	MACAddress MACAddress `json:"macAddress,omitempty"`
}
