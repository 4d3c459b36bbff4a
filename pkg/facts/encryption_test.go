package facts_test

import (
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// Nodes require encryption when each node that has joined can encrypt. From then on it stays so, whoever joins.
func TestNodeProtection(t *testing.T) {
	node := func(chassis string, can bool, has networkv1alpha1.TunnelProtection) (nn networkv1alpha1.NodeNetwork) {
		nn.Status.Chassis, nn.Spec.Encryption = chassis, has
		nn.Status.Encryption = &networkv1alpha1.NodeEncryption{Ready: can}
		return nn
	}
	const none, ipsec = networkv1alpha1.TunnelProtection(""), networkv1alpha1.EncryptionIPsec
	const accepted, required = networkv1alpha1.ProtectionAccepted, networkv1alpha1.ProtectionRequired
	type nodes = []networkv1alpha1.NodeNetwork
	var old networkv1alpha1.NodeNetwork
	old.Status.Chassis = "c3" // its agent says nothing of encryption
	for name, c := range map[string]struct {
		wanted networkv1alpha1.Encryption
		nodes  nodes
		want   networkv1alpha1.TunnelProtection
	}{
		"not wanted":           {"", nodes{node("c1", true, required)}, none},
		"None":                 {networkv1alpha1.EncryptionNone, nodes{node("c1", true, accepted)}, none},
		"no node":              {ipsec, nil, accepted},
		"one cannot":           {ipsec, nodes{node("c1", true, accepted), node("c2", false, accepted)}, accepted},
		"an old agent":         {ipsec, nodes{node("c1", true, accepted), old}, accepted},
		"all can":              {ipsec, nodes{node("c1", true, accepted), node("c2", true, accepted)}, required},
		"one has not joined":   {ipsec, nodes{node("c1", true, accepted), node("", false, accepted)}, required},
		"a node joins later":   {ipsec, nodes{node("c1", true, required), node("c2", false, "")}, required},
		"a node loses its IKE": {ipsec, nodes{node("c1", false, required)}, required},
	} {
		if have := facts.NodeProtection(c.wanted, c.nodes); have != c.want {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
}
