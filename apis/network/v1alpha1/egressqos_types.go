package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EgressQoSName is the name of a namespace's only EgressQoS.
const EgressQoSName = "default"

// EgressQoS marks packets of its namespace's pods that leave the cluster, and limits their bandwidth. It does not apply to
// traffic between pods, also through services, or between a pod and its own node in Shared mode.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="network.weft.dev/goes-after-network=true"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=egressqoses,shortName=eqos
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="a namespace has one EgressQoS, and its name is default"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EgressQoS struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec EgressQoSSpec `json:"spec"`
	// +optional
	Status EgressQoSStatus `json:"status,omitempty,omitzero"`
}

// EgressQoSList is a list of EgressQoSes.
//
// +kubebuilder:object:root=true
type EgressQoSList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EgressQoS `json:"items"`
}

// EgressQoSSpec is the desired treatment of the namespace's packets.
type EgressQoSSpec struct {
	// egress are the rules in order. The first rule that matches a packet decides. Packets that match no rule stay as
	// they are.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Egress []EgressQoSRule `json:"egress"`
}

// EgressQoSRule marks the packets that it matches, limits their bandwidth, or both.
//
// +kubebuilder:validation:XValidation:rule="has(self.dscp) || has(self.bandwidth)",message="dscp, bandwidth or both are needed"
type EgressQoSRule struct {
	// dscp is the differentiated services code point (RFC 2474 §3) that packets get. Without it they keep theirs.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	DSCP *int32 `json:"dscp,omitempty"`
	// bandwidth limits the packets that match the rule.
	// +optional
	Bandwidth *EgressQoSBandwidth `json:"bandwidth,omitempty"`
	// dstCIDR is the network of the packets' destination: "192.0.2.0/24", "2001:db8::/32". Without it the rule applies to
	// all destinations of both families.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="not a CIDR",messageExpression="'\"' + self + '\" is not an IPv4 or IPv6 CIDR such as 192.0.2.0/24 or 2001:db8::/32'",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",message="a CIDR must have no host bits",messageExpression="self + ' has host bits set: a CIDR is the first address of its network and the prefix length'",reason=FieldValueInvalid
	DstCIDR string `json:"dstCIDR,omitempty"`
	// podSelector selects pods of the namespace. Without it the rule applies to all of them.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
}

// EgressQoSBandwidth is a limit. Each node applies it to all its packets that match the rule together. Packets above it
// are dropped.
type EgressQoSBandwidth struct {
	// rate is the limit in kbit/s.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	Rate int64 `json:"rate"`
	// burst is how many kilobits may exceed the rate at once. The smallest burst has room for one packet of 64 KB, the
	// largest of an interface. Without it, it is what the rate sends in 0.8 s, and at least 525.
	// +optional
	// +kubebuilder:validation:Minimum=525
	// +kubebuilder:validation:Maximum=4294967295
	Burst int64 `json:"burst,omitempty"`
}

// EgressQoSStatus is written by the operator.
type EgressQoSStatus struct {
	// egress are the last rules that were readable. They are in force while spec.egress has an unreadable rule.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Egress []EgressQoSRule `json:"egress,omitempty"`

	// conditions: Ready: the rules are in force.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
