package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BGPAdvertisement decides which routes the nodes announce to BGPPeers, and with which attributes.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="network.weft.dev/goes-after-network=true"
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=bgpadv
// +kubebuilder:printcolumn:name="Prefixes",type=integer,JSONPath=`.status.prefixes`,description="announced prefixes"
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`,description="nodes that announce them"
// +kubebuilder:printcolumn:name="Advertised",type=string,JSONPath=`.status.conditions[?(@.type=="Advertised")].status`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Advertised")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BGPAdvertisement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec BGPAdvertisementSpec `json:"spec"`
	// +optional
	Status BGPAdvertisementStatus `json:"status,omitempty,omitzero"`
}

// BGPAdvertisementList is a list of BGPAdvertisements.
//
// +kubebuilder:object:root=true
type BGPAdvertisementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BGPAdvertisement `json:"items"`
}

// BGPAdvertisementSpec describes routes. A prefix that several BGPAdvertisements announce to a peer has the communities
// of all of them, and their highest localPreference.
//
// +kubebuilder:validation:XValidation:rule="has(self.loadBalancers) || self.podSubnets || has(self.egressIPs)",message="one of loadBalancers, podSubnets and egressIPs must be set",reason=FieldValueRequired
type BGPAdvertisementSpec struct {
	// loadBalancers announces addresses of LoadBalancerPools that Services have. An empty object selects all.
	// +optional
	LoadBalancers *BGPLoadBalancers `json:"loadBalancers,omitempty"`

	// podSubnets makes each node announce its own pod subnets. With spec.gateway.snat None of the ClusterNetwork,
	// clients outside then reach pods, and get answers from the pods' own addresses.
	// +optional
	// +kubebuilder:default=false
	PodSubnets bool `json:"podSubnets"`

	// egressIPs announces the addresses of EgressIPs from the nodes that carry them. An empty object selects all.
	// +optional
	EgressIPs *BGPEgressIPs `json:"egressIPs,omitempty"`

	// nodeSelector selects the nodes that announce. Omitted or empty, all that have a session.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[^\\\\W_]([-.\\\\w]{0,61}[^\\\\W_])?$') && self.matchLabels[k].size() <= 63)",message="a key is not a label key such as team or example.com/team, or its value has more than 63 characters",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0)))",message="operator and values do not fit: In and NotIn need values, Exists and DoesNotExist have none",reason=FieldValueInvalid,fieldPath=.matchExpressions
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// peers are the names of the BGPPeers that get the routes. Omitted or empty, all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	Peers []string `json:"peers,omitempty"`

	// aggregationLength is the prefix length of IPv4 routes of loadBalancers and egressIPs. A route is announced while
	// at least one address in it is. A length below 32 may draw traffic for addresses that nothing has.
	// +optional
	// +kubebuilder:default=32
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=32
	AggregationLength int32 `json:"aggregationLength,omitempty"`

	// aggregationLengthV6 is the same for IPv6.
	// +optional
	// +kubebuilder:default=128
	// +kubebuilder:validation:Minimum=16
	// +kubebuilder:validation:Maximum=128
	AggregationLengthV6 int32 `json:"aggregationLengthV6,omitempty"`

	// localPreference is the LOCAL_PREF attribute. Only peers of the nodes' own AS see it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	LocalPreference *int64 `json:"localPreference,omitempty"`

	// communities are standard communities, "64512:100", large ones, "64512:1:2", and the well-known no-export,
	// no-advertise, no-export-subconfed, no-peer, blackhole and graceful-shutdown.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Communities []BGPCommunity `json:"communities,omitempty"`
}

// BGPLoadBalancers selects addresses of load balancers.
type BGPLoadBalancers struct {
	// pools are names of LoadBalancerPools. Omitted or empty, all that poolSelector selects.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Pools []string `json:"pools,omitempty"`

	// poolSelector selects LoadBalancerPools by their labels. Omitted or empty, all.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[^\\\\W_]([-.\\\\w]{0,61}[^\\\\W_])?$') && self.matchLabels[k].size() <= 63)",message="a key is not a label key such as team or example.com/team, or its value has more than 63 characters",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0)))",message="operator and values do not fit: In and NotIn need values, Exists and DoesNotExist have none",reason=FieldValueInvalid,fieldPath=.matchExpressions
	PoolSelector *metav1.LabelSelector `json:"poolSelector,omitempty"`

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
}

// BGPEgressIPs selects EgressIPs.
type BGPEgressIPs struct {
	// selector selects the EgressIPs by their labels. Omitted or empty, all.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[^\\\\W_]([-.\\\\w]{0,61}[^\\\\W_])?$') && self.matchLabels[k].size() <= 63)",message="a key is not a label key such as team or example.com/team, or its value has more than 63 characters",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0)))",message="operator and values do not fit: In and NotIn need values, Exists and DoesNotExist have none",reason=FieldValueInvalid,fieldPath=.matchExpressions
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// BGPCommunity is a standard community (RFC 1997), a large community (RFC 8092), or the name of a well-known one.
//
// +kubebuilder:validation:MaxLength=38
// +kubebuilder:validation:Pattern=`^((large:)?[0-9]{1,10}:[0-9]{1,10}:[0-9]{1,10}|[0-9]{1,5}:[0-9]{1,5}|no-export|no-advertise|no-export-subconfed|no-peer|blackhole|graceful-shutdown)$`
// +kubebuilder:validation:XValidation:rule="!self.matches('[0-9]:[0-9]') || self.split(':').all(n, n == 'large' || int(n) <= (self.matches(':.*:') ? 4294967295 : 65535))",message="a number of a community is too large",messageExpression="self + ' has a number that is too large: at most 65535 in a standard community, and 4294967295 in a large one'",reason=FieldValueInvalid
type BGPCommunity string

// BGPAdvertisementStatus is written by the operator.
type BGPAdvertisementStatus struct {
	// prefixes counts the prefixes that at least one node announces.
	// +optional
	Prefixes int32 `json:"prefixes"`
	// nodes counts the nodes that announce at least one of them.
	// +optional
	Nodes int32 `json:"nodes"`

	// conditions: Advertised: at least one node announces each selected address. Otherwise the message names the first
	// addresses that no node announces, and why.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
