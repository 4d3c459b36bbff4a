package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IPPool is a set of addresses that pods can keep: an address of a pool may outlive its pod and its node. Pods request
// one by the annotation IPPoolAnnotation. Each address in use is a FloatingIP.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="network.weft.dev/goes-after-network=true"
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Location",type=string,JSONPath=`.spec.location`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.total`,description="addresses of the pool"
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.used`,description="addresses that a pod has"
// +kubebuilder:printcolumn:name="Kept",type=integer,JSONPath=`.status.kept`,description="addresses that are kept for a workload without a pod"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: at most 63 characters, because it is a label of the pool's FloatingIPs"
type IPPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec IPPoolSpec `json:"spec"`
	// +optional
	Status IPPoolStatus `json:"status,omitempty,omitzero"`
}

// IPPoolList is a list of IPPools.
//
// +kubebuilder:object:root=true
type IPPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IPPool `json:"items"`
}

// IPPoolSpec describes the addresses of a pool.
//
// +kubebuilder:validation:XValidation:rule="(self.location == 'Underlay') == has(self.network)",message="network: an Underlay pool needs the name of its Network, and no other pool has one",reason=FieldValueInvalid,fieldPath=.network
type IPPoolSpec struct {
	// location is where the addresses live. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="location is immutable"
	Location IPPoolLocation `json:"location"`

	// network is the Network, of topology Localnet or Layer2, on which the addresses of an Underlay pool live. Pods
	// attach to it by the annotation k8s.v1.cni.cncf.io/networks. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="network is immutable"
	Network string `json:"network,omitempty"`

	// ranges are the addresses. A range can be removed only while none of its addresses is in use.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Ranges []IPPoolRange `json:"ranges"`

	// namespaces selects the namespaces whose pods may request addresses. Empty, all; omitted, none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[^\\\\W_]([-.\\\\w]{0,61}[^\\\\W_])?$') && self.matchLabels[k].size() <= 63)",message="a key is not a label key such as team or example.com/team, or its value has more than 63 characters",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0)))",message="operator and values do not fit: In and NotIn need values, Exists and DoesNotExist have none",reason=FieldValueInvalid,fieldPath=.matchExpressions
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`

	// size is how many FloatingIPs of each family exist at least, also without a pod. Other teams can so name the
	// addresses in their firewalls before a pod uses them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	Size int32 `json:"size,omitempty"`
}

// IPPoolLocation is where the addresses of a pool live.
//
// +kubebuilder:validation:Enum=Overlay;Underlay;NAT
type IPPoolLocation string

// Locations of an IPPool.
const (
	// LocationOverlay: the address is the pod's own on eth0. It is in a network of ClusterNetwork's spec.clusterNetwork.
	LocationOverlay IPPoolLocation = "Overlay"
	// LocationUnderlay: the address is the pod's own on a secondary interface, on a Network.
	LocationUnderlay IPPoolLocation = "Underlay"
	// LocationNAT: the gateway router of the pod's node translates between the address and the pod's address on eth0,
	// in both directions. The address is in the network of the nodes' link to the outside.
	LocationNAT IPPoolLocation = "NAT"
)

// IPPoolRange is a range of addresses, and the nodes that can carry it.
type IPPoolRange struct {
	// addresses is an address, a CIDR, or the first and the last address with a dash between: "192.0.2.10-192.0.2.99".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=79
	// +kubebuilder:validation:XValidation:rule="isIP(self) || isCIDR(self) || self.split('-').size() == 2 && self.split('-').all(a, isIP(a.trim()))",messageExpression="'\"' + self + '\" is not an address, a CIDR, or the first and the last address with a dash between'"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",messageExpression="self + ' has host bits set: a CIDR is the first address of its network and the prefix length'",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.split('-').size() != 2 || !self.split('-').all(a, isIP(a.trim())) || ip(self.split('-')[0].trim()).family() == ip(self.split('-')[1].trim()).family()",messageExpression="self + ': the first and the last address are of different families'",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.contains(':') || self.split('-').size() != 2 || !self.split('-').all(a, isIP(a.trim())) || int(self.split('-')[0].trim().split('.')[0]) * 16777216 + int(self.split('-')[0].trim().split('.')[1]) * 65536 + int(self.split('-')[0].trim().split('.')[2]) * 256 + int(self.split('-')[0].trim().split('.')[3]) <= int(self.split('-')[1].trim().split('.')[0]) * 16777216 + int(self.split('-')[1].trim().split('.')[1]) * 65536 + int(self.split('-')[1].trim().split('.')[2]) * 256 + int(self.split('-')[1].trim().split('.')[3])",messageExpression="self + ': the last address is before the first'",reason=FieldValueInvalid
	Addresses string `json:"addresses"`

	// nodeSelector selects the nodes whose pods can have the addresses, as a segment of the data centre may reach only
	// some racks. Omitted, all.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
}

// IPPoolStatus is written by the operator.
type IPPoolStatus struct {
	// total counts the addresses of the pool, as far as they fit into the number.
	// +optional
	Total int64 `json:"total,omitempty"`
	// used counts the addresses that a pod has.
	// +optional
	Used int64 `json:"used,omitempty"`
	// kept counts the addresses that are kept for a workload without a pod at present.
	// +optional
	Kept int64 `json:"kept,omitempty"`
	// skipped are addresses of the ranges that no pod gets, "192.0.2.1" or "192.0.2.8-192.0.2.15", because the Network
	// excludes them, or a node or router of the segment has them. total does not count them.
	// +optional
	// +listType=atomic
	Skipped []string `json:"skipped,omitempty"`

	// ranges are the ranges in force, "192.0.2.10" or "192.0.2.10-192.0.2.99": spec.ranges when it was last accepted. While spec.ranges
	// is refused, the former ranges stay in force. A Service yields to a NAT pool only in these ranges.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Ranges []string `json:"ranges,omitempty"`

	// conditions: Ready is true when pods can get addresses of the pool.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
