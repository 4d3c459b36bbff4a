package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EgressAssignableLabel is the label of Nodes that may carry egress IPs, with any value.
const EgressAssignableLabel = GroupName + "/egress-assignable"

// EgressIP gives what the selected pods send out of the cluster one of its addresses as source, whichever node they run on.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=eip
// +kubebuilder:printcolumn:name="Assigned",type=string,JSONPath=`.status.conditions[?(@.type=="Assigned")].status`
// +kubebuilder:printcolumn:name="Egress-IPs",type=string,JSONPath=`.status.items[*].egressIP`,description="addresses that a node carries"
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.items[*].node`,description="the nodes that carry them"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Assigned")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EgressIP struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec EgressIPSpec `json:"spec"`
	// +optional
	Status EgressIPStatus `json:"status,omitempty,omitzero"`
}

// EgressIPList is a list of EgressIPs.
//
// +kubebuilder:object:root=true
type EgressIPList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EgressIP `json:"items"`
}

// MaxEgressIPs bounds the addresses of one EgressIP.
const MaxEgressIPs = 16

// EgressIPSpec is what the user asks for.
type EgressIPSpec struct {
	// egressIPs are the addresses, of either family, in a network of the nodes' link to the outside and nobody else's. With several of one
	// family each is carried by another node, and connections are spread over them.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	EgressIPs []EgressAddress `json:"egressIPs"`

	// namespaceSelector chooses the namespaces of the pods; empty, all.
	// +required
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`

	// podSelector chooses the pods in these namespaces; empty or omitted, all. A pod that several EgressIPs select has the oldest of them.
	// +optional
	PodSelector metav1.LabelSelector `json:"podSelector,omitempty,omitzero"`

	// whenUnassigned says what happens to what selected pods send out while no node carries an address of a family that egressIPs has.
	// +optional
	// +kubebuilder:default=NodeAddress
	WhenUnassigned WhenUnassigned `json:"whenUnassigned,omitempty"`
}

// EgressAddress is a unicast address that is reached from outside, "192.0.2.7". There is one way to write it, so that none is there twice.
//
// +kubebuilder:validation:MaxLength=39
// +kubebuilder:validation:XValidation:rule="isIP(self)",message="not an IP address",messageExpression="'\"' + self + '\" is not an IPv4 or IPv6 address'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!isIP(self) || ip(self).isGlobalUnicast()",message="not a unicast address",messageExpression="self + ' is not a unicast address: unspecified, loopback, link-local and multicast addresses cannot be used'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!isIP(self) || ip.isCanonical(self)",message="not in canonical form",messageExpression="self + ' is not in canonical form: lower case, without leading zeros, and with the longest run of zeros as ::'",reason=FieldValueInvalid
type EgressAddress string

// WhenUnassigned says what happens to packets that have no egress IP.
//
// +kubebuilder:validation:Enum=NodeAddress;Drop
type WhenUnassigned string

const (
	// UnassignedNodeAddress lets them go out with the address of the pod's node.
	UnassignedNodeAddress WhenUnassigned = "NodeAddress"
	// UnassignedDrop lets nothing leave the cluster.
	UnassignedDrop WhenUnassigned = "Drop"
)

// EgressIPStatus is written by the operator. Its items are the only record of which node carries which address.
type EgressIPStatus struct {
	// items are the addresses that a node carries.
	// +optional
	// +listType=map
	// +listMapKey=egressIP
	// +kubebuilder:validation:MaxItems=16
	Items []EgressIPStatusItem `json:"items,omitempty"`

	// conditions: Assigned is true when a node carries each address; its message names those that none does, and why.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// EgressIPStatusItem says which node carries an address.
type EgressIPStatusItem struct {
	EgressIP IP `json:"egressIP"`
	// node is the name of the Node that carries it.
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
}
