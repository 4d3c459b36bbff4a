package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EgressFirewallName is the name of a namespace's only EgressFirewall.
const EgressFirewallName = "default"

// EgressFirewall says where the pods of its namespace may connect to outside the cluster. What stays in the cluster, among pods and through
// services, is not its affair, but the nodes themselves are: pods on a host's network, the API server among them, are outside.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ef
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="a namespace has one EgressFirewall, and its name is default"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Resolved",type=string,JSONPath=`.status.conditions[?(@.type=="Resolved")].status`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EgressFirewall struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec EgressFirewallSpec `json:"spec"`
	// +optional
	Status EgressFirewallStatus `json:"status,omitempty,omitzero"`
}

// EgressFirewallList is a list of EgressFirewalls.
//
// +kubebuilder:object:root=true
type EgressFirewallList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EgressFirewall `json:"items"`
}

// EgressFirewallSpec is what the namespace's administrator wants.
type EgressFirewallSpec struct {
	// egress are the rules, in order: the first that matches decides. What matches none is allowed.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Egress []EgressFirewallRule `json:"egress"`
}

// EgressFirewallRuleType is what a rule does.
//
// +kubebuilder:validation:Enum=Allow;Deny
type EgressFirewallRuleType string

// What rules do.
const (
	EgressFirewallAllow EgressFirewallRuleType = "Allow"
	EgressFirewallDeny  EgressFirewallRuleType = "Deny"
)

// EgressFirewallRule allows or denies connections to a destination.
type EgressFirewallRule struct {
	// +required
	Type EgressFirewallRuleType `json:"type"`
	// +required
	To EgressFirewallDestination `json:"to"`
	// ports are those that the rule is about; none: all ports of all protocols.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Ports []EgressFirewallPort `json:"ports,omitempty"`
}

// EgressFirewallDestination is where a rule is about, said in one way.
//
// +kubebuilder:validation:XValidation:rule="[has(self.cidrSelector), has(self.dnsName), has(self.nodeSelector)].filter(x, x).size() == 1",message="exactly one of cidrSelector, dnsName and nodeSelector is needed"
type EgressFirewallDestination struct {
	// cidrSelector is a network: "192.0.2.0/24", "2001:db8::/32", "0.0.0.0/0".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="not a CIDR",messageExpression="'\"' + self + '\" is not an IPv4 or IPv6 CIDR such as 192.0.2.0/24 or 2001:db8::/32'",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",message="a CIDR must have no host bits",messageExpression="self + ' has host bits set: a CIDR is the first address of its network and the prefix length'",reason=FieldValueInvalid
	CIDRSelector string `json:"cidrSelector,omitempty"`

	// dnsName is a name whose addresses the operator looks up, again and again as its answers say: "www.example.com". Upper and lower case are
	// the same. There are no wildcards.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=254
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.?$`
	DNSName string `json:"dnsName,omitempty"`

	// nodeSelector selects nodes, whose addresses are meant; empty: all nodes.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
}

// EgressFirewallPort is a protocol, or some of its ports.
//
// +kubebuilder:validation:XValidation:rule="!has(self.endPort) || (has(self.port) && self.endPort >= self.port)",message="endPort needs a port that is not above it",fieldPath=.endPort
type EgressFirewallPort struct {
	// +required
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol"`
	// port is the port, or the first; none: all ports of the protocol.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// endPort is the last port of a range.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	EndPort int32 `json:"endPort,omitempty"`
}

// EgressFirewallStatus is written by the operator.
type EgressFirewallStatus struct {
	// conditions: Ready says whether the rules are in force, Resolved whether every DNS name has an answer.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
