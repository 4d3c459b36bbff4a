package v1alpha1

// BGPPasswordSecret is the Secret in Weft's namespace that has the passwords of BGPPeers.
const BGPPasswordSecret = "weft-bgp"

// ConditionRoutesAnnounced of a NodeNetwork with spec.bgp: no session has failed, neither of BGP nor of BFD, and every
// route is announced. A session that has just been started does not count.
const ConditionRoutesAnnounced = "RoutesAnnounced"

// ConditionEstablished of a BGPPeer: each selected node has an established session.
const ConditionEstablished = "Established"

// ConditionBFDUp of a BGPPeer with spec.bfd: the BFD session of each selected node is up.
const ConditionBFDUp = "BFDUp"

// ConditionAdvertised of a BGPAdvertisement: at least one node announces each selected address.
const ConditionAdvertised = "Advertised"

// Reasons of ConditionEstablished, ConditionBFDUp and ConditionAdvertised, besides ReasonAsExpected and ReasonInvalidSpec.
const (
	// ReasonNoNode: nodeSelector selects no node.
	ReasonNoNode = "NoNode"
	// ReasonSessionsDown: some nodes have no established session; the message names them.
	ReasonSessionsDown = "SessionsDown"
	// ReasonBFDDown: the BFD session of some nodes is not up; the message names them.
	ReasonBFDDown = "BFDDown"
	// ReasonPeerConflict: an older BGPPeer has the same address on a node, or the node has too many peers.
	ReasonPeerConflict = "PeerConflict"
	// ReasonNoPeer: no BGPPeer gets the routes.
	ReasonNoPeer = "NoPeer"
	// ReasonNothingSelected: nothing that exists is selected.
	ReasonNothingSelected = "NothingSelected"
	// ReasonNotAnnounced: no node announces some addresses, or spec names objects that do not exist; the message names them.
	ReasonNotAnnounced = "NotAnnounced"
	// ReasonTooManyRoutes: a node has more routes than it may announce.
	ReasonTooManyRoutes = "TooManyRoutes"
)

// ReasonNotAdvertised of ConditionAnnounced: the LoadBalancerPool is not announced on the segment, and no
// BGPAdvertisement selects it.
const ReasonNotAdvertised = "NotAdvertised"
