package v1alpha1

// ConditionAssigned of an EgressIP: each of its addresses is assigned to a node.
const ConditionAssigned = "Assigned"

// Reasons of ConditionAssigned.
const (
	// ReasonNoAssignableNode: no node with the label EgressAssignableLabel can carry the address.
	ReasonNoAssignableNode = "NoAssignableNode"
	// ReasonNotOnNodeNetwork: no assignable node has a link to the outside with a network that contains the address.
	ReasonNotOnNodeNetwork = "NotOnNodeNetwork"
	// ReasonAddressInUse: the address has another owner; the message names the owner.
	ReasonAddressInUse = "AddressInUse"
	// ReasonNodesUnreachable: the nodes that could carry the address do not answer.
	ReasonNodesUnreachable = "NodesUnreachable"
)
