package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LoadBalancerPool is a set of addresses for Services of type LoadBalancer. The operator gives each Service that the
// pool serves one address of each of its families, and one node of the pool answers ARP and neighbour discovery for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="network.weft.dev/goes-after-network=true"
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=lbpool
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.loadBalancerClass`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.total`,description="addresses of the pool"
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.used`,description="addresses that a Service has"
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.free`,description="addresses that no Service has"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LoadBalancerPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec LoadBalancerPoolSpec `json:"spec"`
	// +optional
	Status LoadBalancerPoolStatus `json:"status,omitempty,omitzero"`
}

// LoadBalancerPoolList is a list of LoadBalancerPools.
//
// +kubebuilder:object:root=true
type LoadBalancerPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LoadBalancerPool `json:"items"`
}

// LoadBalancerPoolSpec describes the addresses of a pool, and the Services that get them.
type LoadBalancerPoolSpec struct {
	// addresses are the pool's addresses, of both families. A Service whose address is removed keeps it until the Service gives it up.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Addresses []LoadBalancerRange `json:"addresses"`

	// loadBalancerClass is the spec.loadBalancerClass of the Services that the pool serves. It begins with weft.dev/.
	// +optional
	// +kubebuilder:default="weft.dev/load-balancer"
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^weft\.dev/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	LoadBalancerClass string `json:"loadBalancerClass,omitempty"`

	// servicesWithoutClass makes the pool also serve Services without a spec.loadBalancerClass. Set it only if no
	// cloud controller serves them.
	// +optional
	ServicesWithoutClass bool `json:"servicesWithoutClass,omitempty"`

	// autoAssign lets Services get addresses that they do not request. With false, a Service must name the pool or
	// the address.
	// +optional
	// +kubebuilder:default=true
	AutoAssign *bool `json:"autoAssign,omitempty"`

	// serviceSelector selects the Services by their labels. Omitted or empty, all.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[^\\\\W_]([-.\\\\w]{0,61}[^\\\\W_])?$') && self.matchLabels[k].size() <= 63)",message="a key is not a label key such as team or example.com/team, or its value has more than 63 characters",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0)))",message="operator and values do not fit: In and NotIn need values, Exists and DoesNotExist have none",reason=FieldValueInvalid,fieldPath=.matchExpressions
	ServiceSelector *metav1.LabelSelector `json:"serviceSelector,omitempty"`

	// namespaceSelector selects the namespaces of the Services. Omitted or empty, all.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[^\\\\W_]([-.\\\\w]{0,61}[^\\\\W_])?$') && self.matchLabels[k].size() <= 63)",message="a key is not a label key such as team or example.com/team, or its value has more than 63 characters",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0)))",message="operator and values do not fit: In and NotIn need values, Exists and DoesNotExist have none",reason=FieldValueInvalid,fieldPath=.matchExpressions
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// nodeSelector selects the nodes that may answer for the addresses, and that announce them by BGP. Omitted or
	// empty, all. While it selects no node, status.nodeSelector applies.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[^\\\\W_]([-.\\\\w]{0,61}[^\\\\W_])?$') && self.matchLabels[k].size() <= 63)",message="a key is not a label key such as team or example.com/team, or its value has more than 63 characters",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0)))",message="operator and values do not fit: In and NotIn need values, Exists and DoesNotExist have none",reason=FieldValueInvalid,fieldPath=.matchExpressions
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// announceOnSegment makes one node answer ARP and neighbour discovery for each address. With false, clients reach
	// the addresses only by routes, such as the routes of a BGPAdvertisement.
	// +optional
	// +kubebuilder:default=true
	AnnounceOnSegment *bool `json:"announceOnSegment,omitempty"`
}

// LoadBalancerRange is an address, a CIDR, or the first and the last address with a dash between:
// "192.0.2.200-192.0.2.220".
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=79
// +kubebuilder:validation:XValidation:rule="isIP(self) || isCIDR(self) || self.split('-').size() == 2 && self.split('-').all(a, isIP(a.trim()))",messageExpression="'\"' + self + '\" is not an address, a CIDR, or the first and the last address with a dash between'"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",messageExpression="self + ' has host bits set: a CIDR is the first address of its network and the prefix length'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.split('-').size() != 2 || !self.split('-').all(a, isIP(a.trim())) || ip(self.split('-')[0].trim()).family() == ip(self.split('-')[1].trim()).family()",messageExpression="self + ': the first and the last address are of different families'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.contains(':') || self.split('-').size() != 2 || !self.split('-').all(a, isIP(a.trim())) || int(self.split('-')[0].trim().split('.')[0]) * 16777216 + int(self.split('-')[0].trim().split('.')[1]) * 65536 + int(self.split('-')[0].trim().split('.')[2]) * 256 + int(self.split('-')[0].trim().split('.')[3]) <= int(self.split('-')[1].trim().split('.')[0]) * 16777216 + int(self.split('-')[1].trim().split('.')[1]) * 65536 + int(self.split('-')[1].trim().split('.')[2]) * 256 + int(self.split('-')[1].trim().split('.')[3])",messageExpression="self + ': the last address is before the first'",reason=FieldValueInvalid
type LoadBalancerRange string

// LoadBalancerPoolStatus is written by the operator.
type LoadBalancerPoolStatus struct {
	// total counts the addresses of the pool, as far as they fit into the number.
	// +optional
	Total int64 `json:"total,omitempty"`
	// used counts the addresses that at least one Service has.
	// +optional
	Used int64 `json:"used,omitempty"`
	// free counts the other addresses.
	// +optional
	Free int64 `json:"free,omitempty"`

	// inUse lists the addresses of the pool that Services have, up to 4096. A Service keeps such an address also when the pool's ranges or
	// selectors exclude it later.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	InUse []IP `json:"inUse,omitempty"`

	// nodeSelector is the last spec.nodeSelector that selected a node. While spec.nodeSelector selects none, it stays in use.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// announcements lists which node answers for which address. Only an address that a Service has is listed.
	// +optional
	// +listType=map
	// +listMapKey=address
	// +kubebuilder:validation:MaxItems=4096
	Announcements []LoadBalancerAnnouncement `json:"announcements,omitempty"`

	// conditions: Ready: Services can get addresses of the pool. Announced: a node answers for each address that a
	// Service has. The message names the addresses without a node, and why they have none.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LoadBalancerAnnouncement is the node that answers for an address.
type LoadBalancerAnnouncement struct {
	Address IP `json:"address"`
	// node is the name of the Node.
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
}
