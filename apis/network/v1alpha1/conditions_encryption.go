package v1alpha1

// ConditionTunnelsEncrypted of a NodeNetwork with spec.encryption: the node can encrypt its tunnels, and has negotiated keys with all
// nodes from which it requires encryption.
const ConditionTunnelsEncrypted = "TunnelsEncrypted"

// Reasons of ConditionTunnelsEncrypted, besides ReasonAsExpected and ReasonHostError.
const (
	// ReasonUnsupportedDatapath: the node has the userspace datapath, whose tunnels the kernel's IPsec never sees.
	ReasonUnsupportedDatapath = "UnsupportedDatapath"
	// ReasonNoIKEDaemon: the node's IKE daemon does not answer.
	ReasonNoIKEDaemon = "NoIKEDaemon"
	// ReasonNoIdentity: the node has no certificate yet.
	ReasonNoIdentity = "NoIdentity"
	// ReasonPeersNotEncrypted: keys are not negotiated with some nodes, or another program has deleted IPsec policies or keys.
	ReasonPeersNotEncrypted = "PeersNotEncrypted"
)
