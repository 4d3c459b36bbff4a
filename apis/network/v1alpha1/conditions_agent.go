package v1alpha1

// Condition types that agents write.
const (
	// ConditionInterfacesReady of a NodeNetwork: the agent's check of pod interfaces found no error. It is not part
	// of Ready, because new pods can still be attached.
	ConditionInterfacesReady = "InterfacesReady"
	// ConditionAddressesFree of a NodeNetwork: a pod address is free. After it was false, it becomes true only when a
	// fiftieth of the addresses is free, because on a full node single addresses become free all the time. It is not
	// part of Ready.
	ConditionAddressesFree = "AddressesFree"
)

// Reasons of conditions that agents write.
const (
	// ReasonSwitchUnavailable: ovs-vswitchd does not run, or does not answer.
	ReasonSwitchUnavailable = "SwitchUnavailable"
	// ReasonOtherConfiguration: the container runtime uses the CNI configuration of another network, whose file sorts
	// before Weft's. The message names the file.
	ReasonOtherConfiguration = "OtherConfiguration"
	// ReasonCheckFailed: interfaces of pods differ from what the agent configured.
	ReasonCheckFailed = "CheckFailed"
)
