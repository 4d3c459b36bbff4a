package v1alpha1

// ConditionAssigned of an EgressIP: a node carries each of its addresses.
const ConditionAssigned = "Assigned"

// Reasons of ConditionAssigned.
const (
	// ReasonNoAssignableNode: no node with the label EgressAssignableLabel can carry the address.
	ReasonNoAssignableNode = "NoAssignableNode"
	// ReasonNotOnNodeNetwork: the address is in no network of an assignable node's link to the outside.
	ReasonNotOnNodeNetwork = "NotOnNodeNetwork"
	// ReasonAddressInUse: the address is somebody else's; the message says whose.
	ReasonAddressInUse = "AddressInUse"
	// ReasonNodesUnreachable: the nodes that could carry the address do not answer.
	ReasonNodesUnreachable = "NodesUnreachable"
	// ReasonUnsupportedGatewayMode: the nodes that could carry the address have no gateway router, since their gateway's mode is Local.
	ReasonUnsupportedGatewayMode = "UnsupportedGatewayMode"
)
