package v1alpha1

// Reasons that an agent gives for its node's conditions.
const (
	// ReasonSwitchUnavailable: ovs-vswitchd does not run, or does not answer.
	ReasonSwitchUnavailable = "SwitchUnavailable"
)
