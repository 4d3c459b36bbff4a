package v1alpha1

// AgentNotReadyTaint is the key of a taint that kubelet may register a node with (--register-with-taints), of any value and effect:
// the operator takes it off once the node's NodeNetwork is Ready, and nobody puts it back.
const AgentNotReadyTaint = "network.weft.dev/agent-not-ready"
