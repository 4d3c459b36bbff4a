package node

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/ipsec"
)

// The condition names the nodes whose tunnels are not protected, also while a repair is under way.
func TestWhyTunnelsAreNotEncrypted(t *testing.T) {
	const (
		accepted, required = networkv1alpha1.ProtectionAccepted, networkv1alpha1.ProtectionRequired
		notEncrypted       = networkv1alpha1.ReasonPeersNotEncrypted
	)
	peers := []ipsec.Peer{{Chassis: "n2", Address: netip.MustParseAddr("192.0.2.2"), Local: netip.MustParseAddr("192.0.2.1")}}
	for name, c := range map[string]struct {
		protection networkv1alpha1.TunnelProtection
		outcome    ipsec.Outcome
		err        error
		reason     string
		says       string
	}{
		"all is well":            {required, ipsec.Outcome{}, nil, "", ""},
		"without keys, accepted": {accepted, ipsec.Outcome{Unkeyed: peers}, nil, "", ""},
		"without keys":           {required, ipsec.Outcome{Unkeyed: peers}, nil, notEncrypted, "no keys are negotiated with n2"},
		"deleted":                {required, ipsec.Outcome{Damaged: peers}, nil, notEncrypted, "another program has deleted"},
		"repaired": {required, ipsec.Outcome{Damaged: peers, Repaired: peers, Unkeyed: peers}, nil,
			notEncrypted, "tunnels to n2 (192.0.2.2)"},
		"no daemon": {required, ipsec.Outcome{Unkeyed: peers}, fmt.Errorf("%w: refused", ipsec.ErrNoDaemon),
			networkv1alpha1.ReasonNoIKEDaemon, "refused"},
		"refused": {required, ipsec.Outcome{Unkeyed: peers}, errors.New("refused"), networkv1alpha1.ReasonHostError, "refused"},
	} {
		reason, err := trouble(c.protection, c.outcome, c.err)
		if reason != c.reason || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v; want %q, %q", name, reason, err, c.reason, c.says)
		}
	}
}
