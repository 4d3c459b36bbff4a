package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExternalRoute makes packets of selected pods that leave the cluster go to routers of its own, with the pods' addresses as source,
// instead of to the next hop of their node. It needs nodes in Shared mode.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="network.weft.dev/goes-after-network=true"
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=er
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Next-hops",type=string,JSONPath=`.status.nextHops`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ExternalRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ExternalRouteSpec `json:"spec"`
	// +optional
	Status ExternalRouteStatus `json:"status,omitempty,omitzero"`
}

// ExternalRouteList is a list of ExternalRoutes.
//
// +kubebuilder:object:root=true
type ExternalRouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExternalRoute `json:"items"`
}

// ExternalRouteSpec is the desired state of an ExternalRoute.
type ExternalRouteSpec struct {
	// namespaceSelector selects the namespaces of the pods. An empty selector selects all namespaces.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$'))",message="a key is not a label key such as team or example.com/team",messageExpression="'\"' + self.matchLabels.filter(k, !k.matches('^([a-z0-9][-.a-z0-9]*/)?[\\\\w.-]+$'))[0] + '\" is not a label key such as team or example.com/team'",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, self.matchLabels[k].size() <= 63)",message="a label value has at most 63 characters",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="operator must be In, NotIn, Exists or DoesNotExist",reason=FieldValueInvalid,fieldPath=.matchExpressions
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : !has(e.values) || e.values.size() == 0)",message="operators In and NotIn need values; Exists and DoesNotExist have none",reason=FieldValueInvalid,fieldPath=.matchExpressions
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`

	// podSelector selects the pods in these namespaces. An empty or omitted selector selects all pods. Pods that several
	// ExternalRoutes select use the next hops of all of them.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$'))",message="a key is not a label key such as team or example.com/team",messageExpression="'\"' + self.matchLabels.filter(k, !k.matches('^([a-z0-9][-.a-z0-9]*/)?[\\\\w.-]+$'))[0] + '\" is not a label key such as team or example.com/team'",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, self.matchLabels[k].size() <= 63)",message="a label value has at most 63 characters",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="operator must be In, NotIn, Exists or DoesNotExist",reason=FieldValueInvalid,fieldPath=.matchExpressions
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : !has(e.values) || e.values.size() == 0)",message="operators In and NotIn need values; Exists and DoesNotExist have none",reason=FieldValueInvalid,fieldPath=.matchExpressions
	PodSelector metav1.LabelSelector `json:"podSelector,omitempty,omitzero"`

	// nextHops are the routers. Connections are spread over the routers of their family, and the replies on a connection from outside
	// return to the router that it came from.
	// +required
	NextHops ExternalNextHops `json:"nextHops"`
}

// ExternalNextHops are routers on the segment of the nodes' links to the outside.
//
// +kubebuilder:validation:XValidation:rule="has(self.static) && self.static.size() > 0 || has(self.pods) && self.pods.size() > 0",message="static, pods or both are needed"
type ExternalNextHops struct {
	// static are routers by address. While a router cannot be used, a router that it replaces stays in use.
	// +optional
	// +listType=map
	// +listMapKey=address
	// +kubebuilder:validation:MaxItems=16
	Static []StaticNextHop `json:"static,omitempty"`
	// pods are pods that are routers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Pods []PodNextHops `json:"pods,omitempty"`
}

// StaticNextHop is a router.
type StaticNextHop struct {
	// address is the router's address: "192.0.2.1", "2001:db8::1".
	// +required
	Address EgressAddress `json:"address"`
	// bfd watches the router by Bidirectional Forwarding Detection (RFC 5880). While it does not answer, it gets no packets.
	// +optional
	BFD bool `json:"bfd,omitempty"`
}

// PodNextHops selects running pods that are routers.
type PodNextHops struct {
	// namespaceSelector selects the namespaces of the pods. An empty selector selects all namespaces.
	// +required
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
	// podSelector selects the pods in these namespaces.
	// +required
	PodSelector metav1.LabelSelector `json:"podSelector"`
	// network is the NetworkAttachmentDefinition, as "namespace/name", of the interface on the nodes' segment, whose addresses
	// k8s.v1.cni.cncf.io/network-status has. Without it the pods must use the host's network, and have the addresses of their node.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Network string `json:"network,omitempty"`
	// bfd is as for static.
	// +optional
	BFD bool `json:"bfd,omitempty"`
}

// ExternalRouteStatus is written by the operator.
type ExternalRouteStatus struct {
	// nextHops are the routers that the selected pods use, sorted by address. A router of down stays in it.
	// +optional
	// +listType=map
	// +listMapKey=address
	// +kubebuilder:validation:MaxItems=64
	NextHops []ExternalNextHop `json:"nextHops,omitempty"`

	// former lists routers that were removed from spec.nextHops.static and stay in use, because a router that replaces them cannot be used.
	// +optional
	// +listType=map
	// +listMapKey=address
	// +kubebuilder:validation:MaxItems=16
	Former []ExternalNextHop `json:"former,omitempty"`

	// down lists the routers of nextHops whose BFD sessions are down on some nodes of the default zone. Pods of these nodes do not use them.
	// +optional
	// +listType=map
	// +listMapKey=address
	// +kubebuilder:validation:MaxItems=64
	Down []DownNextHop `json:"down,omitempty"`

	// conditions: Ready: the selected pods leave by nextHops. The message names the routers that cannot be used or are down, and why, and
	// says whether the object selects no pod.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ExternalNextHop is a router in use.
type ExternalNextHop struct {
	Address IP `json:"address"`
	// bfd: the router is watched.
	// +optional
	BFD bool `json:"bfd,omitempty"`
	// pod is the router as "namespace/name", if it is a pod.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Pod string `json:"pod,omitempty"`
}

// DownNextHop is a router that does not answer by BFD.
type DownNextHop struct {
	Address IP `json:"address"`
	// nodes is the number of nodes that it does not answer.
	Nodes int32 `json:"nodes"`
}
