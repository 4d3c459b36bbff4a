package v1alpha1

const (
	// ComponentLabel of a pod says which part of Weft it is.
	ComponentLabel = "app.kubernetes.io/component"
	// ComponentAgent is the agent.
	ComponentAgent = "agent"
)

// AreaName is a part of the network that one looks at by itself.
//
// +kubebuilder:validation:Enum=Databases;ControlPlane;Nodes;Topology;Addresses;Drift
type AreaName string

const (
	// AreaDatabases is the OVN northbound and southbound databases.
	AreaDatabases AreaName = "Databases"
	// AreaControlPlane is the operator, ovn-northd, and the versions of what runs.
	AreaControlPlane AreaName = "ControlPlane"
	// AreaNodes is agents, Open vSwitch, ovn-controller, links and gateways of nodes.
	AreaNodes AreaName = "Nodes"
	// AreaTopology is what is in the northbound database, and whether it fits the cluster.
	AreaTopology AreaName = "Topology"
	// AreaAddresses is subnets of nodes and addresses of pods.
	AreaAddresses AreaName = "Addresses"
	// AreaDrift is what somebody else changed in the northbound database.
	AreaDrift AreaName = "Drift"
)

// AreaState says how an area is, or how bad a problem.
//
// +kubebuilder:validation:Enum=OK;Progressing;Degraded;Unavailable
type AreaState string

const (
	// StateOK says that there is no problem.
	StateOK AreaState = "OK"
	// StateProgressing says that something is on its way, and needs nobody unless it stays so.
	StateProgressing AreaState = "Progressing"
	// StateDegraded says that something is wrong; the rest works.
	StateDegraded AreaState = "Degraded"
	// StateUnavailable says that nothing can be changed in the network. Existing pods keep what they have.
	StateUnavailable AreaState = "Unavailable"
)

// AreaStatus is one area in a word and a sentence.
type AreaStatus struct {
	Name  AreaName  `json:"name"`
	State AreaState `json:"state"`
	// message is the area's worst problem or, where it has none, how it is.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// MaxProblems bounds the list of problems in a status.
const MaxProblems = 20

// Problem is one thing that is not as it should be.
type Problem struct {
	Area AreaName `json:"area"`
	// state is how bad it is, by itself.
	State AreaState `json:"state"`
	// reason is that of the condition that tells it.
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`
	// object is what it is about, "NodeNetwork/worker-1"; several, if they have the same problem.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Object string `json:"object,omitempty"`
	// message says what is wrong; of several objects, the first one's.
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
	// nextStep is what to do about it, or to look at.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	NextStep string `json:"nextStep,omitempty"`
}

// ComponentVersion is what all nodes run of a component: it changes when the last of them does.
type ComponentVersion struct {
	// name is operator, agent, openvswitch or ovn-controller.
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// version is what the component says of itself.
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version"`
}
