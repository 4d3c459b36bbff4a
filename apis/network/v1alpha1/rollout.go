package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProbeAnnotation on a NodeNetwork asks its agent whether the node's network works: a ProbeRequest in JSON. The agent answers in status.probe.
const ProbeAnnotation = GroupName + "/probe"

// AcceptDifferenceAnnotation on the ClusterNetwork is the version that may remove as many rows of the northbound database as its preflight says.
const AcceptDifferenceAnnotation = GroupName + "/accept-difference"

// ProbeRequest is the value of ProbeAnnotation.
type ProbeRequest struct {
	// ID is repeated by the answer. It depends on the node's pods, so that an answer is of those that run now.
	ID string `json:"id"`
	// Peers are addresses of other nodes' management ports.
	Peers []IP `json:"peers,omitempty"`
	// Asked is when it was made, for who asks.
	Asked metav1.Time `json:"asked"`
}

// ReadProbeRequest returns what a NodeNetwork's annotation asks; ok is false where it asks nothing that can be read.
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
	// id is the request's.
	ID string `json:"id"`
	// error says who was not reached; empty: everybody was.
	// +optional
	Error string `json:"error,omitempty"`
}

// RolloutState says how it goes with operands of another version.
//
// +kubebuilder:validation:Enum=Complete;Progressing;Blocked;Stopped
type RolloutState string

const (
	// RolloutComplete says that all operands are of the version.
	RolloutComplete RolloutState = "Complete"
	// RolloutProgressing says that one after another is replaced.
	RolloutProgressing RolloutState = "Progressing"
	// RolloutBlocked says that what was looked at beforehand does not fit; nothing is replaced.
	RolloutBlocked RolloutState = "Blocked"
	// RolloutStopped says that what was replaced last does not work; nothing more is replaced until it does.
	RolloutStopped RolloutState = "Stopped"
)

// RolloutStage is a part of a rollout.
//
// +kubebuilder:validation:Enum=Preflight;Canary;Nodes;Databases;Operator
type RolloutStage string

const (
	// StagePreflight looks whether what is wanted fits what is there.
	StagePreflight RolloutStage = "Preflight"
	// StageCanary replaces the operands of one node.
	StageCanary RolloutStage = "Canary"
	// StageNodes replaces those of the others.
	StageNodes RolloutStage = "Nodes"
	// StageDatabases replaces the servers of OVN's databases and ovn-northd.
	StageDatabases RolloutStage = "Databases"
	// StageOperator replaces the operator of the network.
	StageOperator RolloutStage = "Operator"
)

// RolloutStatus is how far the operands are on their way to a version. It is written by what makes them.
type RolloutStatus struct {
	// state says in a word how it goes.
	State RolloutState `json:"state"`
	// version is the one that is rolled out.
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version"`
	// image is that of the operands.
	Image string `json:"image"`
	// stage is what is done now; absent when it is complete.
	// +optional
	Stage RolloutStage `json:"stage,omitempty"`
	// object is what it waits for, "Node/worker-1".
	// +optional
	Object string `json:"object,omitempty"`
	// message says what it waits for, or why it does not go on.
	// +optional
	Message string `json:"message,omitempty"`
	// nodes is the number of nodes that take part: those that Kubernetes hears of.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// nodesDone is the number of those that work with the version.
	// +optional
	NodesDone int32 `json:"nodesDone,omitempty"`
	// northd is the version of the ovn-northd that runs.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Northd string `json:"northd,omitempty"`
	// difference is what the version's preflight said that it changes in the northbound database: "3 Logical_Router_Static_Route made, of 912 rows".
	// +optional
	Difference string `json:"difference,omitempty"`
	// since is when state or stage became what they are.
	// +optional
	Since metav1.Time `json:"since,omitempty,omitzero"`
}

// Text is the status in one line.
func (s *RolloutStatus) Text() string {
	if s.State == RolloutComplete {
		return fmt.Sprintf("version %s is rolled out", s.Version)
	}
	return fmt.Sprintf("version %s, stage %s, %d of %d nodes done: %s: %s", s.Version, s.Stage, s.NodesDone, s.Nodes, s.Object, s.Message)
}
