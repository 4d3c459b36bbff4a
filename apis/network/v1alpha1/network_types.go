package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Network is a secondary network that pods can attach to, beside the cluster's own. Weft makes a
// NetworkAttachmentDefinition of its name in each selected namespace, and pods name that definition in the annotation
// k8s.v1.cni.cncf.io/networks. Its addresses may overlap those of other Networks and of the cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="network.weft.dev/goes-after-network=true"
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=wnet
// +kubebuilder:printcolumn:name="Topology",type=string,JSONPath=`.spec.topology`
// +kubebuilder:printcolumn:name="Subnets",type=string,JSONPath=`.spec.subnets`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Attachments",type=integer,JSONPath=`.status.attachments`,description="interfaces of pods on the network"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name != 'default'",message="metadata.name: default is the name of the cluster's own network"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: at most 63 lower case letters, digits and dashes"
type Network struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec NetworkSpec `json:"spec"`
	// +optional
	Status PodNetworkStatus `json:"status,omitempty,omitzero"`
}

// NetworkLabel of a NetworkAttachmentDefinition is the name of the Network that it was made for.
const NetworkLabel = GroupName + "/network"

// NetworkList is a list of Networks.
//
// +kubebuilder:object:root=true
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Network `json:"items"`
}

// NetworkSpec describes a network.
//
// +kubebuilder:validation:XValidation:rule="self.ipam == 'None' || has(self.subnets) && self.subnets.size() > 0",message="subnets: a network with ipam Weft needs at least one",reason=FieldValueRequired,fieldPath=.subnets
// +kubebuilder:validation:XValidation:rule="self.ipam != 'None' || !has(self.subnets) || self.subnets.size() == 0",message="subnets: a network with ipam None has none",reason=FieldValueForbidden,fieldPath=.subnets
// +kubebuilder:validation:XValidation:rule="self.topology != 'Layer3' || self.ipam == 'Weft'",message="ipam: a Layer3 network routes by its subnets, so ipam is Weft",reason=FieldValueInvalid,fieldPath=.ipam
// +kubebuilder:validation:XValidation:rule="self.topology == 'Layer3' || !has(self.subnets) || self.subnets.all(s, !has(s.hostPrefix))",message="subnets: only a Layer3 network has hostPrefix",reason=FieldValueForbidden,fieldPath=.subnets
// +kubebuilder:validation:XValidation:rule="self.topology != 'Layer3' || !has(self.subnets) || self.subnets.all(s, !isCIDR(s.cidr) || (has(s.hostPrefix) ? s.hostPrefix : (cidr(s.cidr).ip().family() == 4 ? 24 : 64)) > cidr(s.cidr).prefixLength() && (has(s.hostPrefix) ? s.hostPrefix : (cidr(s.cidr).ip().family() == 4 ? 24 : 64)) <= (cidr(s.cidr).ip().family() == 4 ? 29 : 112) || oldSelf.hasValue() && has(oldSelf.value().subnets) && oldSelf.value().subnets.exists(o, o == s))",optionalOldSelf=true,message="subnets: hostPrefix, 24 for IPv4 and 64 for IPv6 by default, must be longer than the prefix of cidr, and at most 29 for IPv4 and 112 for IPv6",reason=FieldValueInvalid,fieldPath=.subnets
// +kubebuilder:validation:XValidation:rule="self.topology != 'Localnet' || has(self.physicalNetwork)",message="physicalNetwork: a Localnet network needs the name of its physical network",reason=FieldValueRequired,fieldPath=.physicalNetwork
// +kubebuilder:validation:XValidation:rule="self.topology == 'Localnet' || !has(self.physicalNetwork)",message="physicalNetwork: only a Localnet network has one",reason=FieldValueForbidden,fieldPath=.physicalNetwork
// +kubebuilder:validation:XValidation:rule="self.topology == 'Localnet' || !has(self.vlan)",message="vlan: only a Localnet network has one",reason=FieldValueForbidden,fieldPath=.vlan
// +kubebuilder:validation:XValidation:rule="!has(self.mtu) || self.mtu >= 1280 || !has(self.subnets) || self.subnets.all(s, !isCIDR(s.cidr) || cidr(s.cidr).ip().family() == 4)",message="mtu: IPv6 needs at least 1280 bytes",reason=FieldValueInvalid,fieldPath=.mtu
// +kubebuilder:validation:XValidation:rule="!has(self.excludeSubnets) || self.excludeSubnets.all(e, !isCIDR(e) || has(self.subnets) && self.subnets.exists(s, isCIDR(s.cidr) && cidr(s.cidr).containsCIDR(cidr(e))))",message="excludeSubnets: an entry lies in none of the subnets",messageExpression="'excludeSubnets: ' + self.excludeSubnets.filter(e, isCIDR(e) && !(has(self.subnets) && self.subnets.exists(s, isCIDR(s.cidr) && cidr(s.cidr).containsCIDR(cidr(e)))))[0] + ' lies in none of the subnets'",reason=FieldValueInvalid,fieldPath=.excludeSubnets
type NetworkSpec struct {
	// topology says how the network spans nodes. Layer2 is one switch on all nodes. Layer3 is a switch on each node
	// with a subnet of its own, and a router between them. Localnet is a segment of the data centre: the pods' frames
	// leave the node through the bridge of physicalNetwork, and no router of OVN is on the network. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="topology is immutable"
	Topology NetworkTopology `json:"topology"`

	// physicalNetwork is the name of an entry of ClusterNetwork's spec.physicalNetworks, or physnet, which is the
	// gateway's bridge. Required for a Localnet network, and immutable.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="physicalNetwork is immutable"
	PhysicalNetwork PhysicalNetworkName `json:"physicalNetwork,omitempty"`

	// vlan is the VLAN ID of the segment, 1..4094. Omitted, frames leave the node untagged.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	VLAN int32 `json:"vlan,omitempty"`

	// role is what the network is to its pods: Secondary networks are attached beside the cluster's own. Immutable.
	// +optional
	// +kubebuilder:default=Secondary
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="role is immutable"
	Role NetworkRole `json:"role,omitempty"`

	// subnets are where pods get their addresses from: one of each family at most. A Layer3 network cuts each into a
	// subnet per node. Subnets can be neither changed nor removed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="oldSelf.all(o, self.exists(s, s == o))",message="a subnet can neither be changed nor removed"
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !isCIDR(self[0].cidr) || !isCIDR(self[1].cidr) || cidr(self[0].cidr).ip().family() != cidr(self[1].cidr).ip().family()",message="two subnets must be of different families"
	Subnets []NetworkSubnet `json:"subnets,omitempty"`

	// excludeSubnets are ranges within subnets that Weft gives to no pod of its own choice, nor when a pod requests
	// one.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ExcludeSubnets []CIDR `json:"excludeSubnets,omitempty"`

	// mtu of the pods' interfaces, in bytes: at least 1280 if a subnet is IPv6. Omitted, it is that of the cluster
	// network. A value that a node's link does not carry is not in effect: see status.mtu.
	// +optional
	// +kubebuilder:validation:Minimum=576
	// +kubebuilder:validation:Maximum=65535
	MTU int32 `json:"mtu,omitempty"`

	// ipam says who gives addresses to pods: Weft, or None, if the pods configure themselves. Immutable.
	// +optional
	// +kubebuilder:default=Weft
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ipam is immutable"
	IPAM NetworkIPAM `json:"ipam,omitempty"`

	// namespaces selects the namespaces whose pods may attach. Empty, all; omitted, none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[^\\\\W_]([-.\\\\w]{0,61}[^\\\\W_])?$') && self.matchLabels[k].size() <= 63)",message="a key is not a label key such as team or example.com/team, or its value has more than 63 characters",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0)))",message="operator and values do not fit: In and NotIn need values, Exists and DoesNotExist have none",reason=FieldValueInvalid,fieldPath=.matchExpressions
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`
}

// NetworkTopology is how a network spans nodes.
//
// +kubebuilder:validation:Enum=Layer2;Layer3;Localnet
type NetworkTopology string

// Topologies of a Network.
const (
	TopologyLayer2   NetworkTopology = "Layer2"
	TopologyLayer3   NetworkTopology = "Layer3"
	TopologyLocalnet NetworkTopology = "Localnet"
)

// NetworkRole is what a network is to its pods.
//
// +kubebuilder:validation:Enum=Secondary
type NetworkRole string

// RoleSecondary networks are attached beside the cluster's own.
const RoleSecondary NetworkRole = "Secondary"

// NetworkIPAM is who gives addresses to the pods of a network.
//
// +kubebuilder:validation:Enum=Weft;None
type NetworkIPAM string

// Values of NetworkSpec.IPAM.
const (
	IPAMWeft NetworkIPAM = "Weft"
	IPAMNone NetworkIPAM = "None"
)

// NetworkSubnet is a range of a network's addresses.
type NetworkSubnet struct {
	// +required
	CIDR CIDR `json:"cidr"`
	// hostPrefix is the prefix length of each node's part of a Layer3 network. Omitted, it is 24 for IPv4 and 64 for
	// IPv6. It is longer than the prefix of cidr, and at most 29 for IPv4 and 112 for IPv6.
	// +optional
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=112
	HostPrefix int32 `json:"hostPrefix,omitempty"`
}

// PodNetworkStatus is written by the operator.
type PodNetworkStatus struct {
	// attachments counts the interfaces of pods on the network.
	// +optional
	Attachments int32 `json:"attachments,omitempty"`

	// mtu is the MTU in effect of pods' interfaces, if spec.mtu is set. It differs from spec.mtu while a node's link does not carry
	// that: it is then the former MTU or, if that does not fit either, the largest MTU that all links carry.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// conditions: Ready is true when the network exists in the database and the selected namespaces have its
	// definition.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
