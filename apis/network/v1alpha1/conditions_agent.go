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
	// ConditionPhysicalNetworksReady of a NodeNetwork: the node is connected with each network of
	// spec.physicalNetworks. It is not part of Ready, because only pods on Localnet Networks need them.
	ConditionPhysicalNetworksReady = "PhysicalNetworksReady"
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
	// ReasonPhysicalNetworkMissing: the node lacks the link or the bridge of a physical network, or another program
	// has mapped its name. The message names both.
	ReasonPhysicalNetworkMissing = "PhysicalNetworkMissing"
)
