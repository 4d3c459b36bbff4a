package v1alpha1

// Condition types that only an agent knows.
const (
	// ConditionInterfacesReady of a NodeNetwork: the agent's own check of the interfaces of pods finds nothing wrong. It is no part of
	// Ready: new pods can be attached.
	ConditionInterfacesReady = "InterfacesReady"
	// ConditionAddressesFree of a NodeNetwork: there is an address for another pod. It is true again when a fiftieth of all is free, since on a
	// node that is full one comes and goes all the time. It is no part of Ready.
	ConditionAddressesFree = "AddressesFree"
)

// Reasons that an agent gives for its node's conditions.
const (
	// ReasonSwitchUnavailable: ovs-vswitchd does not run, or does not answer.
	ReasonSwitchUnavailable = "SwitchUnavailable"
	// ReasonOtherConfiguration: the container runtime takes the CNI configuration of another network, whose file sorts before Weft's; the message
	// names it.
	ReasonOtherConfiguration = "OtherConfiguration"
	// ReasonCheckFailed: interfaces of pods are not as they were made.
	ReasonCheckFailed = "CheckFailed"
)
