package v1alpha1

// ServiceEgressSource of a Service: its pods leave the cluster with its addresses. A service that never requested it does not have the
// condition.
const ServiceEgressSource = GroupName + "/EgressSource"

// Reasons of ServiceEgressSource, beside ReasonInvalidAnnotation.
const (
	// ReasonNotRequested: the annotation is gone.
	ReasonNotRequested = "NotRequested"
	// ReasonNotAnswered: no node answers for the addresses in the message. Packets of their family leave as without the annotation.
	ReasonNotAnswered = "NotAnswered"
	// ReasonAddressShared: a Service of another namespace, which the message names, has an address, too, and does not allow the Service's
	// namespace by SharedIPNamespacesAnnotation. Packets of the address' family leave as without the annotation.
	ReasonAddressShared = "AddressShared"
)
