package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EgressFirewallName is the name of a namespace's only EgressFirewall.
const EgressFirewallName = "default"

// EgressFirewall restricts the connections of its namespace's pods to destinations outside the cluster. It does not
// apply to traffic inside the cluster, between pods and through services. Nodes are outside, and so are pods on a
// host's network such as the API server.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="network.weft.dev/goes-after-network=true"
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

// EgressFirewallSpec is the desired state of the namespace's firewall.
type EgressFirewallSpec struct {
	// egress are the rules in order. The first rule that matches decides. Traffic that matches no rule is allowed.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Egress []EgressFirewallRule `json:"egress"`
}

// EgressFirewallRuleType is the action of a rule.
//
// +kubebuilder:validation:Enum=Allow;Deny
type EgressFirewallRuleType string

// The actions of rules.
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
	// ports are the destination ports of the rule. Without them the rule applies to all ports of all protocols.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Ports []EgressFirewallPort `json:"ports,omitempty"`
}

// EgressFirewallDestination is the destination of a rule. Exactly one field is set.
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

	// dnsName is a DNS name, "www.example.com". The operator resolves it, and resolves it again when the answers
	// expire. "*.example.com" is all names below example.com, at any depth, without example.com itself, with the
	// addresses that pods get for them from the cluster's name servers. Case and a trailing dot do not matter. For an IP
	// address use cidrSelector.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=254
	// +kubebuilder:validation:Pattern=`^(\*\.)?([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.?$`
	// +kubebuilder:validation:XValidation:rule="!isIP(self) || self.contains(':')",message="an IP address is not a DNS name",messageExpression="self + ' is an IP address, not a DNS name: use cidrSelector ' + self + '/32'",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="isIP(self) || !self.matches('(^|[.])([0-9]+|0[xX][0-9A-Fa-f]*)[.]?$')",message="the last label of a DNS name is not a number",messageExpression="self + ' is not a DNS name: its last label is a number, as in an IP address'",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.size() <= 253 || self.endsWith('.')",message="a DNS name has at most 253 characters, without the dot at its end",reason=FieldValueInvalid
	DNSName string `json:"dnsName,omitempty"`

	// nodeSelector selects nodes; the destination is all their addresses. An empty selector selects all nodes.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
}

// EgressFirewallPort is a protocol, or a range of its ports.
//
// +kubebuilder:validation:XValidation:rule="!has(self.endPort) || (has(self.port) && self.endPort >= self.port)",message="endPort needs a port that is not above it",fieldPath=.endPort
type EgressFirewallPort struct {
	// +required
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol"`
	// port is the port, or the first port of a range. Without it the rule applies to all ports of the protocol.
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
	// conditions: Ready: the rules are in force. Resolved: every DNS name has an answer.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
