//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
)

// TestFirewallsOfTheHost checks in Local mode that pods reach the world although another program flushes the node's ruleset, or
// sets the policy of iptables' chain for forwarded packets to drop. Another firewall that drops them is named.
func TestFirewallsOfTheHost(t *testing.T) {
	const node = "n1"
	pod := bed.peerPod("fw-pod", node)
	bed.run(t, pod)
	bed.serveOn(t, lab.Outside().Name)
	t.Cleanup(func() {
		bed.setGateway(t, cleanup(), column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkBridge})
	})
	bed.setGateway(t, t.Context(), column{networkv1alpha1.GatewayLocal, networkv1alpha1.UplinkBridge})
	reaches := func() error {
		var failed error
		for _, a := range ofMachine(lab.Outside()).Addresses {
			all, err := bed.podCaller(pod).call(t.Context(), "tcp", netip.AddrPortFrom(a, whoPort), 1)
			if err == nil {
				_, err = answered(all, []string{lab.Outside().Name})
			}
			failed = errors.Join(failed, err)
		}
		return failed
	}
	nft := func(commands string) { bed.mustExec(t, node, "nft", commands) }
	list := func() string { return bed.mustExec(t, node, "nft", "list", "ruleset") }
	t.Cleanup(func() {
		_, err := bed.Exec(cleanup(), node, "nft", "add table ip filter; delete table ip filter; add table ip6 filter; "+
			"delete table ip6 filter; add table inet fw; delete table inet fw")
		if err != nil {
			t.Error(err)
		}
	})
	eventually(t, 20*time.Second, reaches)

	for _, commands := range []string{"flush ruleset", "delete table inet weft", "flush chain inet weft postrouting"} {
		begun := time.Now()
		nft(commands)
		eventually(t, 20*time.Second, reaches)
		t.Logf("%s: pods reach the world after %s", commands, time.Since(begun).Round(time.Millisecond))
	}
	bed.awaitConsistent(t) // also the guards of links

	const drop = "add table %[1]s filter; add chain %[1]s filter FORWARD { type filter hook forward priority 0; policy drop; }; "
	nft(fmt.Sprintf(drop, "ip") + fmt.Sprintf(drop, "ip6"))
	eventually(t, 20*time.Second, func() error {
		if have := list(); strings.Count(have, `accept comment "weft"`) != 4 {
			return errors.New(have)
		}
		return reaches()
	})

	nft("add table inet fw; add chain inet fw fw { type filter hook forward priority 0; policy drop; }")
	eventually(t, 20*time.Second, func() error {
		return gatewayIs(t, node, networkv1alpha1.ReasonForwardingBlocked, "chain fw of table inet fw")
	})
	if reaches() == nil {
		t.Error("the other firewall does not drop packets of pods")
	}
	nft("add rule inet fw fw iifname ovn-k8s-mp0 accept; add rule inet fw fw oifname ovn-k8s-mp0 accept")
	eventually(t, 20*time.Second, func() error {
		return errors.Join(gatewayIs(t, node, networkv1alpha1.ReasonAsExpected, ""), reaches())
	})
}

// gatewayIs returns nil if a node's GatewayReady has the reason, and a message with the text.
func gatewayIs(t *testing.T, node, reason, text string) error {
	nn := &networkv1alpha1.NodeNetwork{}
	if err := bed.api.Get(t.Context(), types.NamespacedName{Name: node}, nn); err != nil {
		return err
	}
	c := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionGatewayReady)
	if c == nil || c.Reason != reason || !strings.Contains(c.Message, text) {
		return fmt.Errorf("GatewayReady of %s is %+v", node, c)
	}
	return nil
}
