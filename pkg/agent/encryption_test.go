package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
)

// encrypt sets spec.encryption.
func (n *node) encrypt(protection networkv1alpha1.TunnelProtection) {
	n.Helper()
	nn := &networkv1alpha1.NodeNetwork{}
	n.must(api.Get(n.Context(), types.NamespacedName{Name: nodeName}, nn))
	before := nn.DeepCopy()
	nn.Spec.Encryption = protection
	n.must(api.Patch(n.Context(), nn, client.MergeFrom(before)))
}

// encrypted waits until the condition TunnelsEncrypted has a reason, or is absent if it is empty.
func (n *node) encrypted(reason string) {
	n.Helper()
	n.until("TunnelsEncrypted", func() error {
		s := n.status()
		c := meta.FindStatusCondition(s.Conditions, networkv1alpha1.ConditionTunnelsEncrypted)
		switch {
		case reason == "" && c == nil && s.Encryption == nil:
			return nil
		case c != nil && c.Reason == reason && s.Encryption != nil && !s.Encryption.Ready:
			return nil
		}
		return fmt.Errorf("condition %+v, encryption %+v; want %q", c, s.Encryption, reason)
	})
}

// A node says why it cannot encrypt its tunnels: on the userspace datapath always, on the kernel's until it has a certificate and an IKE
// daemon. What is missing does not make it unready.
func TestWhyANodeCannotEncrypt(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	n := readyNodeWith(t, func(o *agent.Options) {
		o.IKESocket, o.Identity, o.TLS.CACert = at("charon.vici"), at("chassis.pem"), at("ca.crt")
	})
	n.encrypt(networkv1alpha1.ProtectionAccepted)
	if n.status().DatapathType == networkv1alpha1.DatapathNetdev {
		n.encrypted(networkv1alpha1.ReasonUnsupportedDatapath)
	} else {
		n.encrypted(networkv1alpha1.ReasonNoIdentity)
		const pair = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n" +
			"-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----\n"
		n.must(os.WriteFile(at("ca.crt"), []byte(pair), 0o600))
		n.must(os.WriteFile(at("chassis.pem"), []byte(pair), 0o600))
		n.encrypted(networkv1alpha1.ReasonNoIKEDaemon)
	}
	if c := meta.FindStatusCondition(n.status().Conditions, networkv1alpha1.ConditionReady); c == nil || c.Status != "True" {
		t.Errorf("the node is not ready: %+v", c)
	}
	n.encrypt("")
	n.encrypted("")
}
