package v1alpha1

const (
	// ComponentLabel of a pod names its component of Weft.
	ComponentLabel = "app.kubernetes.io/component"
	// ComponentAgent is the component of agents.
	ComponentAgent = "agent"
)

// AreaName is a part of the network with its own state.
//
// +kubebuilder:validation:Enum=Databases;ControlPlane;Nodes;Topology;Addresses;Drift
type AreaName string

const (
	// AreaDatabases covers the OVN northbound and southbound databases.
	AreaDatabases AreaName = "Databases"
	// AreaControlPlane covers the operator, ovn-northd, and the running versions.
	AreaControlPlane AreaName = "ControlPlane"
	// AreaNodes covers the nodes' agents, Open vSwitch, ovn-controller, links and gateways.
	AreaNodes AreaName = "Nodes"
	// AreaTopology covers the contents of the northbound database.
	AreaTopology AreaName = "Topology"
	// AreaAddresses covers the subnets of nodes and the addresses of pods.
	AreaAddresses AreaName = "Addresses"
	// AreaDrift covers foreign changes to the northbound database.
	AreaDrift AreaName = "Drift"
)

// AreaState is the state of an area, or the severity of a problem.
//
// +kubebuilder:validation:Enum=OK;Progressing;Degraded;Unavailable
type AreaState string

const (
	// StateOK means that there is no problem.
	StateOK AreaState = "OK"
	// StateProgressing means that a change is under way. It needs no attention unless it persists.
	StateProgressing AreaState = "Progressing"
	// StateDegraded means that something is wrong, and that the rest works.
	StateDegraded AreaState = "Degraded"
	// StateUnavailable means that the network cannot be changed. Existing pods keep their connectivity.
	StateUnavailable AreaState = "Unavailable"
)

// AreaStatus is the state of an area.
type AreaStatus struct {
	Name  AreaName  `json:"name"`
	State AreaState `json:"state"`
	// message is the area's worst problem or, without problems, a description of its state.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// MaxProblems is the maximum length of the list of problems in a status.
const MaxProblems = 20

// Problem is something that is wrong.
type Problem struct {
	Area AreaName `json:"area"`
	// state is the severity of the problem.
	State AreaState `json:"state"`
	// reason is the reason of the condition that reports the problem.
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`
	// object is the affected object, "NodeNetwork/worker-1", or several objects with the same problem.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Object string `json:"object,omitempty"`
	// message describes the problem. For several objects it is the first object's message.
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
	// nextStep is what to do or to check.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	NextStep string `json:"nextStep,omitempty"`
}

// ComponentVersion is the version of a component on all nodes. It changes when the last node has the new version.
type ComponentVersion struct {
	// name is operator, agent, openvswitch or ovn-controller.
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// version is the version that the component reports.
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version"`
}
