package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BGPPeer is a router outside the cluster. The agent of each selected node keeps a BGP session with it, and announces
// the routes of the BGPAdvertisements that name the peer.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="network.weft.dev/goes-after-network=true"
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.peerAddress`
// +kubebuilder:printcolumn:name="ASN",type=integer,JSONPath=`.spec.peerASN`
// +kubebuilder:printcolumn:name="My-ASN",type=integer,JSONPath=`.spec.myASN`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`,description="nodes that must have a session"
// +kubebuilder:printcolumn:name="Established",type=integer,JSONPath=`.status.established`,description="nodes that have a session"
// +kubebuilder:printcolumn:name="BFD",type=integer,JSONPath=`.status.bfdUp`,description="nodes whose BFD session is up; empty without BFD"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Established")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BGPPeer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec BGPPeerSpec `json:"spec"`
	// +optional
	Status BGPPeerStatus `json:"status,omitempty,omitzero"`
}

// BGPPeerList is a list of BGPPeers.
//
// +kubebuilder:object:root=true
type BGPPeerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BGPPeer `json:"items"`
}

// BGPPeerSpec describes the router, and the sessions with it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.keepaliveTimeSeconds) || self.keepaliveTimeSeconds < self.holdTimeSeconds",message="keepaliveTimeSeconds must be less than holdTimeSeconds",reason=FieldValueInvalid,fieldPath=.keepaliveTimeSeconds
// +kubebuilder:validation:XValidation:rule="!self.ebgpMultiHop || self.peerASN != self.myASN",message="ebgpMultiHop applies only if peerASN differs from myASN: a session within one AS may have any number of hops",reason=FieldValueInvalid,fieldPath=.ebgpMultiHop
// +kubebuilder:validation:XValidation:rule="!has(self.sourceAddress) || !isIP(self.sourceAddress) || !isIP(self.peerAddress) || ip(self.sourceAddress).family() == ip(self.peerAddress).family()",message="sourceAddress and peerAddress must have the same family",reason=FieldValueInvalid,fieldPath=.sourceAddress
type BGPPeerSpec struct {
	// peerAddress is the address of the router.
	// +required
	PeerAddress EgressAddress `json:"peerAddress"`

	// peerASN is the AS number of the router.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	PeerASN int64 `json:"peerASN"`

	// myASN is the AS number of the nodes in this session.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	MyASN int64 `json:"myASN"`

	// peerPort is the router's TCP port.
	// +optional
	// +kubebuilder:default=179
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	PeerPort int32 `json:"peerPort,omitempty"`

	// nodeSelector selects the nodes that keep a session. Omitted or empty, all.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, k.matches('^([a-z0-9][-.a-z0-9]*/)?[^\\\\W_]([-.\\\\w]{0,61}[^\\\\W_])?$') && self.matchLabels[k].size() <= 63)",message="a key is not a label key such as team or example.com/team, or its value has more than 63 characters",reason=FieldValueInvalid,fieldPath=.matchLabels
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0)))",message="operator and values do not fit: In and NotIn need values, Exists and DoesNotExist have none",reason=FieldValueInvalid,fieldPath=.matchExpressions
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// sourceAddress is the nodes' own address of the sessions. Set it only if nodeSelector selects the one node that
	// has the address. Omitted, the kernel chooses by the route to the router.
	// +optional
	SourceAddress EgressAddress `json:"sourceAddress,omitempty"`

	// holdTimeSeconds is how long a session lasts without messages of the router. The smaller value of both sides
	// applies.
	// +optional
	// +kubebuilder:default=90
	// +kubebuilder:validation:Minimum=3
	// +kubebuilder:validation:Maximum=65535
	HoldTimeSeconds int32 `json:"holdTimeSeconds,omitempty"`

	// keepaliveTimeSeconds is the time between keepalive messages. Omitted, it is a third of holdTimeSeconds.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=21845
	KeepaliveTimeSeconds int32 `json:"keepaliveTimeSeconds,omitempty"`

	// ebgpMultiHop permits routers between the nodes and a peer of another AS.
	// +optional
	// +kubebuilder:default=false
	EBGPMultiHop bool `json:"ebgpMultiHop"`

	// passwordKey is the key of the Secret weft-bgp, in Weft's namespace, that has the password of the sessions (TCP MD5,
	// RFC 2385). Omitted, the sessions have no password.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][-._A-Za-z0-9]*$`
	PasswordKey string `json:"passwordKey,omitempty"`

	// gracefulRestartTimeSeconds is how long the router keeps the routes of a node whose agent restarts (RFC 4724). 0
	// switches graceful restart off: a restart of the agent withdraws its routes.
	// +optional
	// +kubebuilder:default=120
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4095
	GracefulRestartTimeSeconds *int32 `json:"gracefulRestartTimeSeconds,omitempty"`

	// bfd lets nodes and router find out within a second that the other is lost (RFC 5880), and end the session. An empty object
	// has the defaults. Omitted, there is no BFD.
	// +optional
	BFD *BGPPeerBFD `json:"bfd,omitempty"`
}

// BGPPeerBFD are the parameters of Bidirectional Forwarding Detection in asynchronous mode. The router needs BFD for its
// sessions with the nodes, too.
type BGPPeerBFD struct {
	// transmitIntervalMilliseconds is the time between packets to the router. The router may require more.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=60000
	TransmitIntervalMilliseconds int32 `json:"transmitIntervalMilliseconds,omitempty"`

	// receiveIntervalMilliseconds is the least time between packets of the router. The router may send less often.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=60000
	ReceiveIntervalMilliseconds int32 `json:"receiveIntervalMilliseconds,omitempty"`

	// detectMultiplier is how many intervals of transmitIntervalMilliseconds the router waits for a packet before the node
	// is lost. The router's own multiplier decides how long the node waits.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=50
	DetectMultiplier int32 `json:"detectMultiplier,omitempty"`

	// multiHop means that the router expects BFD between addresses that other routers connect (RFC 5883, UDP port 4784).
	// With ebgpMultiHop it always does. Set it for a router of the nodes' own AS that is not on their link, or whose
	// session is not configured as directly connected.
	// +optional
	MultiHop bool `json:"multiHop,omitempty"`
}

// BGPPeerStatus is written by the operator. NodeNetwork.status.bgp has the session of each node.
type BGPPeerStatus struct {
	// nodes counts the nodes that must have a session with the router.
	// +optional
	Nodes int32 `json:"nodes"`
	// established counts the nodes whose session is established.
	// +optional
	Established int32 `json:"established"`
	// bfdUp counts the nodes whose BFD session with the router is up. It is absent without spec.bfd.
	// +optional
	BFDUp *int32 `json:"bfdUp,omitempty"`

	// conditions: Established: each selected node has an established session. BFDUp, with spec.bfd: the BFD session of each
	// selected node is up. The message names the other nodes, and why they have no session.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
