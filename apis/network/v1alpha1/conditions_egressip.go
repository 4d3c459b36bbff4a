package v1alpha1

// ConditionAssigned of an EgressIP: each of its addresses is assigned to a node.
const ConditionAssigned = "Assigned"

// Reasons of ConditionAssigned.
const (
	// ReasonNoAssignableNode: no node with the label EgressAssignableLabel can carry the address.
	ReasonNoAssignableNode = "NoAssignableNode"
	// ReasonNotOnNodeNetwork: no assignable node has a link to the outside with a network that contains the address.
	ReasonNotOnNodeNetwork = "NotOnNodeNetwork"
	// ReasonAddressInUse: the address has another owner; the message names the owner, or the MAC of a foreign host. Of
	// ConditionReady of a LoadBalancerPool: foreign hosts have addresses of the pool, which no Service gets.
	ReasonAddressInUse = "AddressInUse"
	// ReasonProbing: a node is finding out whether a foreign host has the address. Also of ServiceLoadBalancerReady.
	ReasonProbing = "Probing"
	// ReasonNodesUnreachable: the nodes that could carry the address do not answer.
	ReasonNodesUnreachable = "NodesUnreachable"
)
