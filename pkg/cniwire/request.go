package cniwire

import (
	"encoding/json"
)

// Version is the version of the conversation. The agent installs the weft-cni
// of its own build, so two versions meet only while an agent is being replaced.
const Version = 1

// Command is a CNI_COMMAND that the agent answers.
type Command string

// The commands of the CNI specification 1.1.0 that reach the agent. VERSION is
// answered by weft-cni alone.
const (
	Add    Command = "ADD"
	Del    Command = "DEL"
	Check  Command = "CHECK"
	Status Command = "STATUS"
	GC     Command = "GC"
)

// Args are the CNI_ARGS that a Kubernetes runtime gives.
type Args struct {
	PodNamespace     string `json:"podNamespace,omitempty"`     // K8S_POD_NAMESPACE
	PodName          string `json:"podName,omitempty"`          // K8S_POD_NAME
	PodUID           string `json:"podUID,omitempty"`           // K8S_POD_UID; of a static pod the file's, not the mirror's
	InfraContainerID string `json:"infraContainerID,omitempty"` // K8S_POD_INFRA_CONTAINER_ID
}

// Request is one CNI command with everything that the runtime said.
type Request struct {
	Version     int             `json:"version"`
	Command     Command         `json:"command"`
	ContainerID string          `json:"containerID,omitempty"` // CNI_CONTAINERID; not for STATUS and GC
	NetNS       string          `json:"netns,omitempty"`       // CNI_NETNS; empty for DEL, which never opens it
	IfName      string          `json:"ifName,omitempty"`      // CNI_IFNAME; not for STATUS and GC
	Args        Args            `json:"args"`
	Config      json.RawMessage `json:"config"` // standard input: the plugin's configuration
}

// Response answers a request: an error, or for ADD a result in the form of CNI
// 1.1.0, which weft-cni converts to the version that the runtime asked for.
type Response struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
}
