package cniwire

import (
	"encoding/json"
)

// Version is the version of the protocol. The agent installs the weft-cni of its own build, so two versions meet only
// while an agent is being replaced.
const Version = 1

// Command is a CNI_COMMAND that the agent handles.
type Command string

// The commands of the CNI specification 1.1.0 that reach the agent. weft-cni answers VERSION by itself.
const (
	Add    Command = "ADD"
	Del    Command = "DEL"
	Check  Command = "CHECK"
	Status Command = "STATUS"
	GC     Command = "GC"
)

// Args are the CNI_ARGS that a Kubernetes runtime passes.
type Args struct {
	PodNamespace     string `json:"podNamespace,omitempty"`     // K8S_POD_NAMESPACE
	PodName          string `json:"podName,omitempty"`          // K8S_POD_NAME
	PodUID           string `json:"podUID,omitempty"`           // K8S_POD_UID; for a static pod the UID of its file, not of its mirror pod
	InfraContainerID string `json:"infraContainerID,omitempty"` // K8S_POD_INFRA_CONTAINER_ID
}

// Request is a CNI command with everything that the runtime passed.
type Request struct {
	Version     int             `json:"version"`
	Command     Command         `json:"command"`
	ContainerID string          `json:"containerID,omitempty"` // CNI_CONTAINERID; empty for STATUS and GC
	NetNS       string          `json:"netns,omitempty"`       // CNI_NETNS; empty for DEL, which never opens it
	IfName      string          `json:"ifName,omitempty"`      // CNI_IFNAME; empty for STATUS and GC
	Args        Args            `json:"args"`
	Config      json.RawMessage `json:"config"` // the plugin's configuration, from standard input
}

// Response answers a request: an error, or for ADD a result in the format of CNI 1.1.0, which weft-cni converts to
// the version that the runtime requested.
type Response struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
}
