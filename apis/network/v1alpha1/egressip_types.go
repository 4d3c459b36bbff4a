package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EgressAssignableLabel marks Nodes that may carry egress IPs. Its value does not matter.
const EgressAssignableLabel = GroupName + "/egress-assignable"

// EgressIP makes the packets of selected pods leave the cluster with one of its addresses as source, whichever node
// the pods run on.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="network.weft.dev/goes-after-network=true"
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=eip
// +kubebuilder:printcolumn:name="Assigned",type=string,JSONPath=`.status.conditions[?(@.type=="Assigned")].status`
// +kubebuilder:printcolumn:name="Egress-IPs",type=string,JSONPath=`.spec.egressIPs`
// +kubebuilder:printcolumn:name="Assignments",type=string,JSONPath=`.status.items`,description="addresses that are assigned to a node, and the nodes that carry them"
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

// EgressIPSpec is the desired state of an EgressIP.
type EgressIPSpec struct {
	// egressIPs are the addresses. Each must be in a network of the nodes' link to the outside and must not be in use
	// otherwise, neither in the cluster nor by another host of that network. Several addresses of a family are carried by
	// different nodes, and connections are spread over them.
	// While an address cannot be used, an address that it replaces stays in use.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	EgressIPs []EgressAddress `json:"egressIPs"`

	// namespaceSelector selects the namespaces of the pods. An empty selector selects all namespaces.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$'))",message="a key is not a label key such as team or example.com/team",messageExpression="'\"' + self.matchLabels.filter(k, !k.matches('^([a-z0-9][-.a-z0-9]*/)?[\\\\w.-]+$'))[0] + '\" is not a label key such as team or example.com/team'",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, self.matchLabels[k].size() <= 63)",message="a label value has at most 63 characters",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="operator must be In, NotIn, Exists or DoesNotExist",reason=FieldValueInvalid,fieldPath=.matchExpressions
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : !has(e.values) || e.values.size() == 0)",message="operators In and NotIn need values; Exists and DoesNotExist have none",reason=FieldValueInvalid,fieldPath=.matchExpressions
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`

	// podSelector selects the pods in these namespaces. An empty or omitted selector selects all pods. If several
	// EgressIPs select a pod, the oldest of them applies.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$'))",message="a key is not a label key such as team or example.com/team",messageExpression="'\"' + self.matchLabels.filter(k, !k.matches('^([a-z0-9][-.a-z0-9]*/)?[\\\\w.-]+$'))[0] + '\" is not a label key such as team or example.com/team'",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, self.matchLabels[k].size() <= 63)",message="a label value has at most 63 characters",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="operator must be In, NotIn, Exists or DoesNotExist",reason=FieldValueInvalid,fieldPath=.matchExpressions
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : !has(e.values) || e.values.size() == 0)",message="operators In and NotIn need values; Exists and DoesNotExist have none",reason=FieldValueInvalid,fieldPath=.matchExpressions
	PodSelector metav1.LabelSelector `json:"podSelector,omitempty,omitzero"`

	// whenUnassigned is what happens to packets of selected pods while no node carries an address of their family,
	// although egressIPs has one.
	// +optional
	// +kubebuilder:default=NodeAddress
	WhenUnassigned WhenUnassigned `json:"whenUnassigned,omitempty"`
}

// EgressAddress is a unicast address that is reachable from outside, "192.0.2.7". Only the canonical form is
// accepted, so that no address is listed twice.
//
// +kubebuilder:validation:MaxLength=39
// +kubebuilder:validation:XValidation:rule="isIP(self)",message="not an IP address",messageExpression="'\"' + self + '\" is not an IPv4 or IPv6 address'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!isIP(self) || ip(self).isGlobalUnicast()",message="not a unicast address",messageExpression="self + ' is not a unicast address: unspecified, loopback, link-local and multicast addresses cannot be used'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!isIP(self) || ip.isCanonical(self)",message="not in canonical form",messageExpression="self + ' is not in canonical form: lower case, without leading zeros, and with the longest run of zeros as ::'",reason=FieldValueInvalid
type EgressAddress string

// WhenUnassigned is what happens to packets without an egress IP.
//
// +kubebuilder:validation:Enum=NodeAddress;Drop
type WhenUnassigned string

// UnassignedDrop drops packets that would leave the cluster. The default value, NodeAddress, lets them leave with the
// address of the pod's node.
const UnassignedDrop WhenUnassigned = "Drop"

// EgressIPStatus is written by the operator. Its items are the only record of the nodes that carry the addresses.
type EgressIPStatus struct {
	// items lists the addresses that are assigned to a node.
	// +optional
	// +listType=map
	// +listMapKey=egressIP
	// +kubebuilder:validation:MaxItems=16
	Items []EgressIPStatusItem `json:"items,omitempty"`

	// former lists addresses that were removed from egressIPs and stay in use, because an address that replaces them cannot be used.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Former []IP `json:"former,omitempty"`

	// held lists addresses of egressIPs that a node carried and that no node carries at present. Like the addresses of items and former,
	// they stay the EgressIP's: no Service gets one of them as an external IP.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Held []IP `json:"held,omitempty"`

	// probing lists addresses that no node carries and that nodes probe: an address is not assigned until a node has found out
	// that no foreign host has it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Probing []IP `json:"probing,omitempty"`

	// conditions: Assigned: each address is assigned to a node. The message names the other addresses, and why they
	// are not assigned.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// EgressIPStatusItem is the assignment of an address to a node.
type EgressIPStatusItem struct {
	EgressIP IP `json:"egressIP"`
	// node is the name of the Node that carries the address.
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
}
