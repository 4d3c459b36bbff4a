package facts

import (
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// NodeProtection returns what every node does for the encryption of its tunnels. Nodes first only accept it, because a node that
// requires it is cut off from a node that cannot encrypt. When each node with a chassis can, all require it. It stays so: a node that
// joins later is reached only encrypted.
func NodeProtection(wanted networkv1alpha1.Encryption, nodes []networkv1alpha1.NodeNetwork) networkv1alpha1.TunnelProtection {
	if wanted != networkv1alpha1.EncryptionIPsec {
		return ""
	}
	required := slices.ContainsFunc(nodes, func(nn networkv1alpha1.NodeNetwork) bool {
		return nn.Spec.Encryption == networkv1alpha1.ProtectionRequired
	})
	joined := slices.DeleteFunc(slices.Clone(nodes), func(nn networkv1alpha1.NodeNetwork) bool { return nn.Status.Chassis == "" })
	cannot := slices.ContainsFunc(joined, func(nn networkv1alpha1.NodeNetwork) bool { return !CanEncrypt(&nn) })
	if required || len(joined) > 0 && !cannot {
		return networkv1alpha1.ProtectionRequired
	}
	return networkv1alpha1.ProtectionAccepted
}

// CanEncrypt reports whether a node's agent says that the node can encrypt its tunnels.
func CanEncrypt(nn *networkv1alpha1.NodeNetwork) bool {
	return nn.Status.Encryption != nil && nn.Status.Encryption.Ready
}
