package v1alpha1

// MaxNodeBGPRoutes is how many routes a node announces, so that a NodeNetwork stays far below the limit of an object.
const MaxNodeBGPRoutes = 2048

// MaxNodeBGPPeers is how many BGPPeers a node has sessions with.
const MaxNodeBGPPeers = 16

// NodeBGP is what a node announces by BGP, and to whom. The operator computes it from BGPPeers and BGPAdvertisements.
type NodeBGP struct {
	// routerID is the BGP identifier of the node.
	// +required
	RouterID IP `json:"routerID"`

	// nextHops are the node's addresses in routes, at most one per family.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	NextHops []IP `json:"nextHops,omitempty"`

	// peers are the BGPPeers that the node has a session with.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Peers []NodeBGPPeer `json:"peers,omitempty"`

	// routes are the node's routes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2048
	Routes []NodeBGPRoute `json:"routes,omitempty"`
}

// NodeBGPPeer is a BGPPeer of a node. Its fields have the meaning of the BGPPeer's.
type NodeBGPPeer struct {
	// name is the name of the BGPPeer.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// peerAddress is the address of the router.
	// +required
	PeerAddress IP `json:"peerAddress"`
	// peerASN is the router's AS number.
	// +required
	PeerASN int64 `json:"peerASN"`
	// myASN is the node's AS number.
	// +required
	MyASN int64 `json:"myASN"`
	// peerPort is the router's TCP port.
	// +required
	PeerPort int32 `json:"peerPort"`
	// sourceAddress is the node's own address. If empty, the kernel chooses it.
	// +optional
	SourceAddress IP `json:"sourceAddress,omitempty"`
	// holdTimeSeconds is how long a session lasts without messages.
	// +required
	HoldTimeSeconds int32 `json:"holdTimeSeconds"`
	// keepaliveTimeSeconds is the time between keepalive messages.
	// +required
	KeepaliveTimeSeconds int32 `json:"keepaliveTimeSeconds"`
	// ebgpMultiHop permits routers between the node and the peer.
	// +optional
	EBGPMultiHop bool `json:"ebgpMultiHop,omitempty"`
	// passwordKey is the key of the Secret weft-bgp that has the password.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PasswordKey string `json:"passwordKey,omitempty"`
	// gracefulRestartTimeSeconds is how long the router keeps routes while the agent restarts. 0 means no graceful restart.
	// +optional
	GracefulRestartTimeSeconds int32 `json:"gracefulRestartTimeSeconds,omitempty"`
	// bfd is absent without BFD.
	// +optional
	BFD *NodeBFD `json:"bfd,omitempty"`
}

// NodeBFD are the parameters of a node's BFD session with a BGPPeer.
type NodeBFD struct {
	// transmitIntervalMilliseconds is the time between sent packets.
	// +required
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=60000
	TransmitIntervalMilliseconds int32 `json:"transmitIntervalMilliseconds"`
	// receiveIntervalMilliseconds is the least time between received packets.
	// +required
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=60000
	ReceiveIntervalMilliseconds int32 `json:"receiveIntervalMilliseconds"`
	// detectMultiplier is how many intervals the router waits for a packet.
	// +required
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=50
	DetectMultiplier int32 `json:"detectMultiplier"`
	// multiHop means that other routers may be between the node and the peer.
	// +optional
	MultiHop bool `json:"multiHop,omitempty"`
}

// NodeBGPRoute is a route with its attributes.
type NodeBGPRoute struct {
	// prefix is the announced network, "192.0.2.1/32".
	// +required
	// +kubebuilder:validation:MaxLength=43
	Prefix string `json:"prefix"`
	// localPreference is the LOCAL_PREF attribute. It is absent without a preference.
	// +optional
	LocalPreference *int64 `json:"localPreference,omitempty"`
	// communities are sorted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=38
	Communities []string `json:"communities,omitempty"`
	// peers are the names of the peers that get the route. Omitted, all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	Peers []string `json:"peers,omitempty"`
}

// BGPSessionState is the state of a BGP session.
//
// +kubebuilder:validation:Enum=Established;Connecting
type BGPSessionState string

const (
	// BGPEstablished means that routes are exchanged.
	BGPEstablished BGPSessionState = "Established"
	// BGPConnecting means that there is no session, and the agent attempts to establish one.
	BGPConnecting BGPSessionState = "Connecting"
)

// NodeBGPSession is a node's session with a BGPPeer, as the agent sees it.
type NodeBGPSession struct {
	// peer is the name of the BGPPeer.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Peer string `json:"peer"`
	// state is Established or Connecting.
	// +required
	State BGPSessionState `json:"state"`
	// routes counts the routes that the node announces to the peer.
	// +optional
	Routes int32 `json:"routes"`
	// message says why there is no session. It is empty for an established one, and until the first attempt has failed.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
	// bfd is the BFD session with the router. It is absent without BFD.
	// +optional
	BFD *NodeBFDSession `json:"bfd,omitempty"`
}

// BFDState is the state of a BFD session.
//
// +kubebuilder:validation:Enum=Up;Down
type BFDState string

const (
	// BFDUp means that the packets of both sides arrive.
	BFDUp BFDState = "Up"
	// BFDDown means that they do not, or that the session is only starting.
	BFDDown BFDState = "Down"
)

// NodeBFDSession is a node's BFD session with a BGPPeer, as the agent sees it.
type NodeBFDSession struct {
	// state is Up or Down.
	// +required
	State BFDState `json:"state"`
	// message says why the session is down. It is empty while it is up, and until the router had time to answer.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}
