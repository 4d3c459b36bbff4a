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
)
