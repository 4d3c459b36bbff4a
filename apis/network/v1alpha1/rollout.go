package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProbeAnnotation on a NodeNetwork requests its agent to probe the node's network. The value is a ProbeRequest in
// JSON. The agent answers in status.probe.
const ProbeAnnotation = GroupName + "/probe"

// AppliedAnnotation on each workload that weft-operands applied is the digest of what it applied last.
const AppliedAnnotation = GroupName + "/applied"

// AcceptDifferenceAnnotation on the ClusterNetwork permits a version to remove as many rows of the northbound
// database as its preflight reports. The value is the version.
const AcceptDifferenceAnnotation = GroupName + "/accept-difference"

// ProbeRequest is the value of ProbeAnnotation.
type ProbeRequest struct {
	// ID is repeated in the answer. It depends on the node's pods, so that an answer belongs to the pods that run
	// now.
	ID string `json:"id"`
	// Peers are addresses of other nodes' management ports.
	Peers []IP `json:"peers,omitempty"`
	// Asked is when the request was made. Only the requester uses it.
	Asked metav1.Time `json:"asked"`
}

// ReadProbeRequest parses a NodeNetwork's annotation. ok is false if there is no valid request.
func ReadProbeRequest(annotations map[string]string) (request ProbeRequest, ok bool) {
	text, there := annotations[ProbeAnnotation]
	if !there {
		return ProbeRequest{}, false
	}
	err := json.Unmarshal([]byte(text), &request)
	return request, err == nil && request.ID != ""
}

// ProbeStatus is an agent's answer to a ProbeRequest.
type ProbeStatus struct {
	// id is the ID of the request.
	ID string `json:"id"`
	// error names the peers that were not reached. It is empty if all were.
	// +optional
	Error string `json:"error,omitempty"`
}

// RolloutState is the state of a rollout of the operands.
//
// +kubebuilder:validation:Enum=Complete;Progressing;Blocked;Stopped
type RolloutState string

const (
	// RolloutComplete means that all operands have the version.
	RolloutComplete RolloutState = "Complete"
	// RolloutProgressing means that operands are being replaced one after the other.
	RolloutProgressing RolloutState = "Progressing"
	// RolloutBlocked means that a check before the rollout failed; nothing is replaced.
	RolloutBlocked RolloutState = "Blocked"
	// RolloutStopped means that the operands replaced last do not work; nothing more is replaced until they do.
	RolloutStopped RolloutState = "Stopped"
)

// RolloutStage is a stage of a rollout.
//
// +kubebuilder:validation:Enum=Preflight;Canary;Nodes;Databases;Operator
type RolloutStage string

const (
	// StagePreflight checks whether the version is compatible with the cluster.
	StagePreflight RolloutStage = "Preflight"
	// StageCanary replaces the operands of one node.
	StageCanary RolloutStage = "Canary"
	// StageNodes replaces the operands of the other nodes.
	StageNodes RolloutStage = "Nodes"
	// StageDatabases replaces the servers of OVN's databases and ovn-northd.
	StageDatabases RolloutStage = "Databases"
	// StageOperator replaces the network's operator.
	StageOperator RolloutStage = "Operator"
)

// RolloutStatus is the progress of the operands towards a version. weft-operands writes it.
type RolloutStatus struct {
	// state is the state of the rollout.
	State RolloutState `json:"state"`
	// version is the version that is rolled out.
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version"`
	// image is the image of the operands.
	Image string `json:"image"`
	// settings is the digest of spec.components. It is absent if nothing is set.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Settings string `json:"settings,omitempty"`
	// stage is the present stage. It is absent when the rollout is complete.
	// +optional
	Stage RolloutStage `json:"stage,omitempty"`
	// object is the object that the rollout waits for, "Node/worker-1".
	// +optional
	Object string `json:"object,omitempty"`
	// message says what the rollout waits for, or why it does not continue.
	// +optional
	Message string `json:"message,omitempty"`
	// nodes is the number of participating nodes. Nodes whose kubelet has stopped reporting do not participate.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// nodesDone is the number of nodes that work with the version.
	// +optional
	NodesDone int32 `json:"nodesDone,omitempty"`
	// northd is the version of the running ovn-northd.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Northd string `json:"northd,omitempty"`
	// difference is what the version would change in the northbound database according to its preflight: "3
	// Logical_Router_Static_Route created, of 912 rows".
	// +optional
	Difference string `json:"difference,omitempty"`
	// since is when state or stage changed last.
	// +optional
	Since metav1.Time `json:"since,omitempty,omitzero"`
}

// Text returns the status in one line.
func (s *RolloutStatus) Text() string {
	if s.State == RolloutComplete {
		return fmt.Sprintf("version %s is rolled out", s.Version)
	}
	return fmt.Sprintf("version %s, stage %s, %d of %d nodes done: %s: %s",
		s.Version, s.Stage, s.NodesDone, s.Nodes, s.Object, s.Message)
}
