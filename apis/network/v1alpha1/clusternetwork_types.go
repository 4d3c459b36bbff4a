package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterNetworkName is the name of the one ClusterNetwork.
const ClusterNetworkName = "default"

// Prefix lengths of a node's pod subnet when ClusterNetworkEntry.HostPrefix is omitted. The CEL rules repeat them.
const (
	DefaultHostPrefixIPv4 = 24
	DefaultHostPrefixIPv6 = 64
)

// ClusterNetwork is the network of the cluster. There is one, named "default". Its absence leaves everything as it is: nodes
// and pods keep what they have, and nothing is added or removed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cn
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodesReady`,description="nodes whose network is ready, of all"
// +kubebuilder:printcolumn:name="Free-IPs",type=string,JSONPath=`.status.addressesFree`,description="free pod addresses by cluster CIDR"
// +kubebuilder:printcolumn:name="MTU",type=integer,JSONPath=`.status.mtu`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="the only ClusterNetwork is named default",messageExpression="'the only ClusterNetwork is named default, not ' + self.metadata.name"
type ClusterNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ClusterNetworkSpec `json:"spec"`
	// +optional
	Status ClusterNetworkStatus `json:"status,omitempty,omitzero"`
}

// ClusterNetworkList is a list of ClusterNetworks.
//
// +kubebuilder:object:root=true
type ClusterNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterNetwork `json:"items"`
}

// ClusterNetworkSpec is what the user asks for. No two of its CIDRs may overlap, and clusterNetwork, serviceNetwork and
// joinSubnet must agree on the address families.
//
// +kubebuilder:validation:XValidation:rule="self.clusterNetwork.all(a, self.clusterNetwork.all(b, a.cidr == b.cidr || !isCIDR(a.cidr) || !isCIDR(b.cidr) || !cidr(a.cidr).containsCIDR(b.cidr)))",message="clusterNetwork CIDRs must not overlap",messageExpression="self.clusterNetwork.map(a, self.clusterNetwork.exists(b, a.cidr != b.cidr && isCIDR(a.cidr) && isCIDR(b.cidr) && cidr(a.cidr).containsCIDR(b.cidr)), 'clusterNetwork ' + a.cidr + ' overlaps clusterNetwork ' + self.clusterNetwork.map(b, a.cidr != b.cidr && isCIDR(b.cidr) && cidr(a.cidr).containsCIDR(b.cidr), b.cidr)[0])[0]",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.clusterNetwork.all(a, self.serviceNetwork.all(b, !isCIDR(a.cidr) || !isCIDR(b) || !(cidr(a.cidr).containsCIDR(b) || cidr(b).containsCIDR(a.cidr))))",message="clusterNetwork and serviceNetwork must not overlap",messageExpression="self.clusterNetwork.map(a, isCIDR(a.cidr) && self.serviceNetwork.exists(b, isCIDR(b) && (cidr(a.cidr).containsCIDR(b) || cidr(b).containsCIDR(a.cidr))), 'clusterNetwork ' + a.cidr + ' overlaps serviceNetwork ' + self.serviceNetwork.filter(b, isCIDR(b) && (cidr(a.cidr).containsCIDR(b) || cidr(b).containsCIDR(a.cidr)))[0])[0]",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.clusterNetwork.all(a, self.joinSubnet.all(b, !isCIDR(a.cidr) || !isCIDR(b) || !(cidr(a.cidr).containsCIDR(b) || cidr(b).containsCIDR(a.cidr))))",message="clusterNetwork and joinSubnet must not overlap",messageExpression="self.clusterNetwork.map(a, isCIDR(a.cidr) && self.joinSubnet.exists(b, isCIDR(b) && (cidr(a.cidr).containsCIDR(b) || cidr(b).containsCIDR(a.cidr))), 'clusterNetwork ' + a.cidr + ' overlaps joinSubnet ' + self.joinSubnet.filter(b, isCIDR(b) && (cidr(a.cidr).containsCIDR(b) || cidr(b).containsCIDR(a.cidr)))[0])[0]",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.serviceNetwork.all(a, self.joinSubnet.all(b, !isCIDR(a) || !isCIDR(b) || !(cidr(a).containsCIDR(b) || cidr(b).containsCIDR(a))))",message="serviceNetwork and joinSubnet must not overlap",messageExpression="self.serviceNetwork.map(a, isCIDR(a) && self.joinSubnet.exists(b, isCIDR(b) && (cidr(a).containsCIDR(b) || cidr(b).containsCIDR(a))), 'serviceNetwork ' + a + ' overlaps joinSubnet ' + self.joinSubnet.filter(b, isCIDR(b) && (cidr(a).containsCIDR(b) || cidr(b).containsCIDR(a)))[0])[0]",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.clusterNetwork.size() == 0 || !self.clusterNetwork.all(c, isCIDR(c.cidr)) || self.serviceNetwork.all(s, !isCIDR(s) || self.clusterNetwork.exists(c, cidr(c.cidr).ip().family() == cidr(s).ip().family()))",message="each family of serviceNetwork needs a clusterNetwork",messageExpression="'serviceNetwork ' + self.serviceNetwork.filter(s, isCIDR(s) && !self.clusterNetwork.exists(c, cidr(c.cidr).ip().family() == cidr(s).ip().family()))[0] + ' needs a clusterNetwork of its address family'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.serviceNetwork.size() == 0 || !self.serviceNetwork.all(s, isCIDR(s)) || self.clusterNetwork.all(c, !isCIDR(c.cidr) || self.serviceNetwork.exists(s, cidr(s).ip().family() == cidr(c.cidr).ip().family()))",message="each family of clusterNetwork needs a serviceNetwork",messageExpression="'clusterNetwork ' + self.clusterNetwork.map(c, isCIDR(c.cidr) && !self.serviceNetwork.exists(s, cidr(s).ip().family() == cidr(c.cidr).ip().family()), c.cidr)[0] + ' needs a serviceNetwork of its address family'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.joinSubnet.size() == 0 || !self.joinSubnet.all(j, isCIDR(j)) || self.clusterNetwork.all(c, !isCIDR(c.cidr) || self.joinSubnet.exists(j, cidr(j).ip().family() == cidr(c.cidr).ip().family()))",message="each family of clusterNetwork needs a joinSubnet",messageExpression="'clusterNetwork ' + self.clusterNetwork.map(c, isCIDR(c.cidr) && !self.joinSubnet.exists(j, cidr(j).ip().family() == cidr(c.cidr).ip().family()), c.cidr)[0] + ' needs a joinSubnet of its address family'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.mtu) || self.mtu == 0 || self.mtu >= 1280 || !self.clusterNetwork.exists(c, isCIDR(c.cidr) && cidr(c.cidr).ip().family() == 6)",message="IPv6 needs an mtu of at least 1280 (RFC 8200 section 5)",reason=FieldValueInvalid,fieldPath=.mtu
type ClusterNetworkSpec struct {
	// clusterNetwork lists the networks that pod addresses come from. Each node gets a subnet of hostPrefix length of
	// one entry per family. Entries can be appended; one that exists can be neither changed nor removed.
	// +required
	// +listType=map
	// +listMapKey=cidr
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="oldSelf.all(o, self.exists(n, n.cidr == o.cidr))",message="a clusterNetwork entry cannot be removed",messageExpression="'clusterNetwork ' + oldSelf.map(o, !self.exists(n, n.cidr == o.cidr), o.cidr)[0] + ' cannot be removed: nodes may use it; entries can only be appended'",reason=FieldValueForbidden
	ClusterNetwork []ClusterNetworkEntry `json:"clusterNetwork"`

	// serviceNetwork is the API server's --service-cluster-ip-range: at most one CIDR per family. Immutable.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="serviceNetwork is immutable",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(s, isCIDR(s)) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="serviceNetwork has at most one CIDR per address family",messageExpression="'serviceNetwork has at most one CIDR per address family: ' + self[0] + ' and ' + self[1]",reason=FieldValueInvalid
	ServiceNetwork []CIDR `json:"serviceNetwork"`

	// joinSubnet is the network of the join switch, between the cluster router and the gateway routers: one CIDR per
	// family, at least a /24 or a /112, not seen outside of OVN. A family that clusterNetwork lacks is not used.
	// Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={"100.64.0.0/16","fd98::/64"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="joinSubnet is immutable",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(s, isCIDR(s)) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="joinSubnet has at most one CIDR per address family",messageExpression="'joinSubnet has at most one CIDR per address family: ' + self[0] + ' and ' + self[1]",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.all(s, !isCIDR(s) || cidr(s).prefixLength() <= (cidr(s).ip().family() == 4 ? 24 : 112))",message="joinSubnet must be at least a /24 (IPv4) or a /112 (IPv6)",messageExpression="'joinSubnet ' + self.filter(s, isCIDR(s) && cidr(s).prefixLength() > (cidr(s).ip().family() == 4 ? 24 : 112))[0] + ' is too small: each node takes an address of it; use at least a /24 (IPv4) or a /112 (IPv6)'",reason=FieldValueInvalid
	JoinSubnet []CIDR `json:"joinSubnet,omitempty"`

	// mtu is the MTU of pod interfaces in bytes. 0, the default, detects it: the smallest link MTU of the nodes less
	// the encapsulation's overhead. Otherwise 576..65000, at least 1280 when clusterNetwork has an IPv6 entry.
	// +optional
	// +kubebuilder:validation:Maximum=65000
	// +kubebuilder:validation:XValidation:rule="self == 0 || self >= 576",message="mtu must be 0 (detect) or at least 576 (RFC 791)",reason=FieldValueInvalid
	MTU int32 `json:"mtu,omitempty"`

	// encapsulation is how nodes tunnel pod packets to each other.
	// +optional
	// +kubebuilder:default={}
	Encapsulation Encapsulation `json:"encapsulation,omitempty,omitzero"`

	// gateway is how traffic leaves and enters the cluster.
	// +optional
	// +kubebuilder:default={}
	Gateway Gateway `json:"gateway,omitempty,omitzero"`

	// podRecord says which pods carry the annotation network.weft.dev/pod-networks. OnRequest: those that ask, or whose
	// namespace asks, by the annotation network.weft.dev/pod-record: "true". Always: every pod, at the cost of one API
	// write per pod.
	// +optional
	// +kubebuilder:default=OnRequest
	PodRecord PodRecordPolicy `json:"podRecord,omitempty"`

	// dns is what CNI results and VIF records say of name resolution, for a runtime or a virtual machine that configures itself by them. kubelet
	// writes resolv.conf of containers itself, by its own clusterDNS and clusterDomain, which these should equal.
	// +optional
	DNS DNS `json:"dns,omitempty,omitzero"`

	// drift says what happens to rows of the OVN northbound database that are Weft's and that somebody else changed.
	// +optional
	// +kubebuilder:default={}
	Drift Drift `json:"drift,omitempty,omitzero"`

	// databases says how OVN's databases are kept, where the operator makes them.
	// +optional
	// +kubebuilder:default={}
	Databases Databases `json:"databases,omitempty,omitzero"`

	// upgrade says how nodes get the operands of another version, where the operator makes them.
	// +optional
	// +kubebuilder:default={}
	Upgrade Upgrade `json:"upgrade,omitempty,omitzero"`
}

// Databases says how OVN's databases are kept.
type Databases struct {
	// members is on how many nodes they are. With 3 the network can be changed as long as two of them are there. One can become 3; 3 cannot become one.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Enum=1;3
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="3 members of the databases cannot become 1: only a network that is installed anew has fewer",reason=FieldValueForbidden
	Members int32 `json:"members,omitempty"`
}

// Upgrade says how nodes get the operands of another version.
type Upgrade struct {
	// maxUnavailable is how many nodes at a time may have theirs replaced, once the first node works with them.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`
}

// DriftMode says what happens to a row of ours that somebody else changed.
//
// +kubebuilder:validation:Enum=Repair;Report
type DriftMode string

const (
	// DriftRepair puts the row right at once, and reports it.
	DriftRepair DriftMode = "Repair"
	// DriftReport reports it and leaves it as it is until its object changes or the operator starts again.
	DriftReport DriftMode = "Report"
)

// Drift says what happens to rows that somebody else changed.
type Drift struct {
	// +optional
	// +kubebuilder:default=Repair
	Mode DriftMode `json:"mode,omitempty"`
}

// ClusterNetworkEntry is one network of pod addresses.
//
// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || (has(self.hostPrefix) ? self.hostPrefix : (cidr(self.cidr).ip().family() == 4 ? 24 : 64)) > cidr(self.cidr).prefixLength()",message="hostPrefix must be longer than the prefix of cidr",messageExpression="'hostPrefix' + (has(self.hostPrefix) ? ' ' : (cidr(self.cidr).ip().family() == 4 ? ', 24 by default, ' : ', 64 by default, ')) + 'must be longer than the prefix of cidr ' + self.cidr",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || !has(self.hostPrefix) || self.hostPrefix <= (cidr(self.cidr).ip().family() == 4 ? 29 : 112)",message="hostPrefix must be at most 29 (IPv4) or 112 (IPv6)",messageExpression="'hostPrefix of ' + self.cidr + ' must be at most ' + (cidr(self.cidr).ip().family() == 4 ? '29' : '112') + ': smaller subnets have no room for pods'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || (has(self.hostPrefix) ? self.hostPrefix : (cidr(self.cidr).ip().family() == 4 ? 24 : 64)) == (has(oldSelf.hostPrefix) ? oldSelf.hostPrefix : (cidr(oldSelf.cidr).ip().family() == 4 ? 24 : 64))",message="hostPrefix is immutable",messageExpression="'hostPrefix of clusterNetwork ' + self.cidr + ' is immutable'",reason=FieldValueForbidden
type ClusterNetworkEntry struct {
	// cidr is the network. Immutable.
	// +required
	CIDR CIDR `json:"cidr"`

	// hostPrefix is the prefix length of each node's subnet: longer than the prefix of cidr, at most 29 for IPv4 (4
	// pods) and 112 for IPv6. Omitted, it is 24 for IPv4 and 64 for IPv6. Immutable.
	// +optional
	HostPrefix int32 `json:"hostPrefix,omitempty"`
}

// EncapsulationType is a tunnel protocol.
//
// +kubebuilder:validation:Enum=Geneve
type EncapsulationType string

// EncapsulationGeneve is Geneve (RFC 8926), the one that carries all of OVN's metadata.
const EncapsulationGeneve EncapsulationType = "Geneve"

// Encapsulation is how nodes tunnel packets to each other.
type Encapsulation struct {
	// +optional
	// +kubebuilder:default=Geneve
	Type EncapsulationType `json:"type,omitempty"`
}

// GatewayMode is where traffic leaves the cluster.
//
// +kubebuilder:validation:Enum=Shared;Local
type GatewayMode string

const (
	// GatewayShared sends egress from the gateway router through the external bridge, past the host's stack.
	GatewayShared GatewayMode = "Shared"
	// GatewayLocal sends egress through the management port and the host's routes and rules.
	GatewayLocal GatewayMode = "Local"
)

// UplinkType is how OVN gets a node's link to the outside.
//
// +kubebuilder:validation:Enum=Bridge;Interface
type UplinkType string

const (
	// UplinkBridge shares a link with the host: it is a port of an Open vSwitch bridge that has the host's addresses.
	UplinkBridge UplinkType = "Bridge"
	// UplinkInterface gives OVN a link of its own, with the link's addresses; the host keeps others.
	UplinkInterface UplinkType = "Interface"
)

// SNATPolicy says what source pods' packets have outside of the cluster.
//
// +kubebuilder:validation:Enum=Node;None
type SNATPolicy string

const (
	// SNATNode gives them the address of the node that they leave from.
	SNATNode SNATPolicy = "Node"
	// SNATNone lets them keep the pod's: the network outside must route pod subnets to their nodes.
	SNATNone SNATPolicy = "None"
)

// Gateway is how traffic leaves and enters the cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.uplink) || self.uplink != 'Interface' || has(self.interface)",message="uplink Interface needs an interface",reason=FieldValueRequired,fieldPath=.interface
type Gateway struct {
	// +optional
	// +kubebuilder:default=Shared
	Mode GatewayMode `json:"mode,omitempty"`

	// uplink is how OVN gets the link. Bridge: the link is shared with the host, whose addresses and routes move onto an Open vSwitch
	// bridge unless they are on one. Interface: the link is OVN's alone.
	// +optional
	// +kubebuilder:default=Bridge
	Uplink UplinkType `json:"uplink,omitempty"`

	// interface is the external bridge or link of each node. Omitted, the one with the default route.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[^\s/:]+$`
	Interface string `json:"interface,omitempty"`

	// maxMoving is how many nodes at a time may move their link onto a bridge. After a move that was rolled back no further node moves.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MaxMoving int32 `json:"maxMoving,omitempty"`

	// nextHops are the routers to send egress to, at most one per family. Omitted, those of the default routes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(h, isIP(h)) || ip(self[0]).family() != ip(self[1]).family()",message="nextHops has at most one address per family",messageExpression="'nextHops has at most one address per family: ' + self[0] + ' and ' + self[1]",reason=FieldValueInvalid
	NextHops []IP `json:"nextHops,omitempty"`

	// snat says what source pods' packets have outside of the cluster.
	// +optional
	// +kubebuilder:default=Node
	SNAT SNATPolicy `json:"snat,omitempty"`

	// overrides change this for some nodes; the first whose selector matches a node counts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Overrides []GatewayOverride `json:"overrides,omitempty"`
}

// GatewayOverride is what is different on some nodes. A field that is omitted is as for all.
type GatewayOverride struct {
	// nodeSelector chooses the nodes by their labels.
	// +required
	NodeSelector metav1.LabelSelector `json:"nodeSelector"`

	// +optional
	Mode GatewayMode `json:"mode,omitempty"`
	// +optional
	Uplink UplinkType `json:"uplink,omitempty"`
	// interface is the external bridge or link of these nodes.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[^\s/:]+$`
	Interface string `json:"interface,omitempty"`
	// nextHops are the routers that these nodes send egress to, at most one per family.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	NextHops []IP `json:"nextHops,omitempty"`
}

// PodRecordPolicy says which pods carry the VIF record.
//
// +kubebuilder:validation:Enum=OnRequest;Always
type PodRecordPolicy string

const (
	// PodRecordOnRequest writes the VIF record of pods that ask for it.
	PodRecordOnRequest PodRecordPolicy = "OnRequest"
	// PodRecordAlways writes the VIF record of every pod.
	PodRecordAlways PodRecordPolicy = "Always"
)

// ClusterNetworkStatus is written by the operator.
type ClusterNetworkStatus struct {
	// observedGeneration is the metadata.generation that this status speaks about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready is true when spec is valid, in the database, and every node's network is ready. Available: the network can be changed
	// and has a node that is ready. Progressing: something is being rolled out. Degraded: something is wrong, such as a spec that cannot be
	// applied or a node that fails. Upgradeable: an upgrade may begin. The message of each that is not good is the worst problem.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// areas say in a word how each part of the network is.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Areas []AreaStatus `json:"areas,omitempty"`

	// problems are what is wrong, the worst first, at most 20. Nodes with the same problem are one.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Problems []Problem `json:"problems,omitempty"`

	// computed is spec with all defaults, and with what was detected.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Computed *ClusterNetworkSpec `json:"computed,omitempty"`

	// versions are what runs, of each component on all nodes: one that is being replaced keeps its former version until the last node has the
	// other.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Versions []ComponentVersion `json:"versions,omitempty"`

	// rollout is how far the operands are on their way to the version of the operator; absent where the operator does not make them.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// databases says how the members of OVN's databases are; absent where there is one, or where the operator does not make them.
	// +optional
	Databases *DatabasesStatus `json:"databases,omitempty"`

	// mtu is the MTU of pod interfaces in bytes, in effect.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// +optional
	Nodes NodeCounts `json:"nodes,omitempty,omitzero"`

	// nodesReady is nodes as text, "2/3", for kubectl.
	// +optional
	NodesReady string `json:"nodesReady,omitempty"`

	// addresses counts the pod addresses of each entry of clusterNetwork.
	// +optional
	// +listType=map
	// +listMapKey=cidr
	// +kubebuilder:validation:MaxItems=8
	Addresses []NetworkAddresses `json:"addresses,omitempty"`

	// addressesFree is the free counts of addresses as text, "10.244.0.0/16: 65000", for kubectl.
	// +optional
	AddressesFree string `json:"addressesFree,omitempty"`

	// drift tells what somebody else changed in the OVN northbound database; absent while nothing was found.
	// +optional
	Drift *DriftStatus `json:"drift,omitempty"`
}

// MaxDriftItems bounds the list in ClusterNetwork's status.
const MaxDriftItems = 20

// DriftState says what became of a difference.
//
// +kubebuilder:validation:Enum=Repaired;Standing;Collision
type DriftState string

const (
	// DriftRepaired is put right.
	DriftRepaired DriftState = "Repaired"
	// DriftStanding is as it was found, since drift.mode is Report.
	DriftStanding DriftState = "Standing"
	// DriftCollision is a row of somebody else that has the name of one of ours. It is never touched.
	DriftCollision DriftState = "Collision"
)

// DriftStatus tells what somebody else changed.
type DriftStatus struct {
	// total counts the differences found, the repaired ones included.
	Total int64 `json:"total"`
	// standing is the number of differences and collisions that are there now.
	Standing int32 `json:"standing"`
	// items are the latest, at most 20, the newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Items []DriftItem `json:"items,omitempty"`
}

// DriftItem is one difference between the database and what Weft wants there.
type DriftItem struct {
	// table is the OVSDB table, "Logical_Switch_Port".
	Table string `json:"table"`
	// row is the row's name where it has one, its UUID otherwise and of a collision.
	Row string `json:"row"`
	// owner is the unit that the row belongs to, "pod/demo/web-0".
	Owner string `json:"owner"`
	// column is the column that differs; empty when the whole row is absent or should not be there.
	// +optional
	Column string `json:"column,omitempty"`
	// want is the value that Weft gives it, cut at 256 bytes, empty when there should be none; "present" or "absent" of a
	// whole row.
	// +optional
	Want string `json:"want,omitempty"`
	// have is the value that was found, cut at 256 bytes, empty when there was none; "present" or "absent" of a whole row.
	// +optional
	Have string `json:"have,omitempty"`
	// +optional
	State DriftState `json:"state,omitempty"`
	// since is when it was first seen.
	Since metav1.Time `json:"since"`
	// last is when it was last seen.
	Last metav1.Time `json:"last"`
	// count is how often it was seen.
	Count int64 `json:"count"`
}

// NodeCounts counts the nodes of the cluster.
type NodeCounts struct {
	// total is the number of Nodes.
	Total int32 `json:"total"`
	// ready is the number of Nodes whose NodeNetwork is Ready.
	Ready int32 `json:"ready"`
}

// NetworkAddresses counts the pod addresses of one cluster CIDR.
type NetworkAddresses struct {
	CIDR          CIDR `json:"cidr"`
	AddressCounts `json:",inline"`
}

// AddressCounts counts addresses that pods can have. A count beyond int64 stays at its largest value (IPv6).
type AddressCounts struct {
	// total is used plus free.
	Total int64 `json:"total"`
	// used is the number of addresses that pods have.
	Used int64 `json:"used"`
	// free is the number of addresses that pods can still get.
	Free int64 `json:"free"`
}
