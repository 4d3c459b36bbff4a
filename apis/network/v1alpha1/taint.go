package v1alpha1

// AgentNotReadyTaint is the key of a taint with which kubelet may register a node (--register-with-taints), with any
// value and effect. The operator removes the taint once the node's NodeNetwork is Ready, and never restores it.
const AgentNotReadyTaint = "network.weft.dev/agent-not-ready"
