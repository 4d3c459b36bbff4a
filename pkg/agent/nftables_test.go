package agent_test

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/agent/repairs"
)

// repaired counts the repairs of the agent.
type repaired struct {
	mu    sync.Mutex
	kinds map[string]int
}

func (r *repaired) observe(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds[kind]++
	changes.Notify()
}

func (r *repaired) count(kind string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kinds[kind]
}

// localNode returns a node in Local mode, whose repairs are counted.
func localNode(t *testing.T) (*node, *repaired) {
	t.Helper()
	r := &repaired{kinds: map[string]int{}}
	n := readyNodeWith(t, func(o *agent.Options) { o.ObserveRepair = r.observe })
	n.giveNIC()
	n.setGateway(networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayLocal, SNAT: networkv1alpha1.SNATNode})
	n.awaitRule("pods' egress", podsEgress)
	n.until("the gateway", func() error { return n.reason(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonAsExpected) })
	return n, r
}

const podsEgress = `ip saddr 10.244.0.0/16 oifname != "ovn-k8s-mp0" masquerade`

func (n *node) nft(args ...string) {
	n.Helper()
	if out, err := exec.Command("nft", args...).CombinedOutput(); err != nil {
		n.Fatalf("nft %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// A notification of the kernel causes each repair. Only by that does the agent know the process.
func TestAFlushedRulesetComesBack(t *testing.T) {
	n, r := localNode(t)
	before := log.length()
	for i, commands := range []string{"flush ruleset", "delete table inet weft", "flush chain inet weft postrouting"} {
		n.nft(commands)
		n.until(commands, func() error {
			return isTrue(r.count(repairs.Nftables) == i+1, fmt.Sprintf("%d repairs", r.count(repairs.Nftables)))
		})
		n.awaitRule(commands, podsEgress)
	}
	n.must(n.reason(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonAsExpected))
	const line = `"object"="table inet weft of nftables" "changedBy"="nft"`
	n.until("the log", func() error { return isTrue(strings.Count(log.since(before), line) == 3, log.since(before)) })
}

// The condition names the table and the process of a firewall that reloads again and again, and the table comes back when it stops.
func TestAFirewallThatKeepsReloading(t *testing.T) {
	n, _ := localNode(t)
	n.until("the condition", func() error {
		n.nft("flush", "ruleset")
		s := n.status()
		if s == nil {
			return errors.New("no NodeNetwork")
		}
		c := meta.FindStatusCondition(s.Conditions, networkv1alpha1.ConditionGatewayReady)
		return isTrue(c.Reason == networkv1alpha1.ReasonForeignChanges &&
			strings.Contains(c.Message, `a process named "nft" keeps changing table inet weft of nftables`), fmt.Sprintf("%+v", c))
	})
	for range 20 {
		n.nft("flush", "ruleset")
	}
	n.awaitRule("the table", podsEgress)
	n.must(n.reason(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonForeignChanges))
}

// dropForwarded makes the chain of iptables-nft with policy drop, as Docker does, and a rule of another program.
func (n *node) dropForwarded() {
	n.Helper()
	n.nft("add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }; " +
		"add rule ip filter FORWARD iifname docker0 counter accept")
	n.Cleanup(func() { n.nft("add table ip filter; delete table ip filter") })
}

// forwardRules returns how many rules of Weft the chain of iptables-nft has.
func (n *node) forwardRules() int {
	n.Helper()
	out, err := exec.Command("nft", "list", "chain", "ip", "filter", "FORWARD").CombinedOutput()
	n.must(err)
	return strings.Count(string(out), `accept comment "weft"`)
}

func (n *node) awaitForwardRules(what string, want int) {
	n.Helper()
	n.until(what, func() error { got := n.forwardRules(); return isTrue(got == want, fmt.Sprintf("%d rules", got)) })
}

func TestDockersDropDoesNotStopPods(t *testing.T) {
	n, r := localNode(t)
	n.dropForwarded()
	n.awaitForwardRules("a policy drop", 2)
	n.nft("flush chain ip filter FORWARD")
	n.awaitForwardRules("a reload", 2)
	if got := r.count(repairs.Firewall); got != 1 {
		t.Errorf("%d repairs were counted", got)
	}
	n.setGateway(sharedGateway)
	n.awaitForwardRules("the host no longer forwards", 0)
	n.setGateway(networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayLocal, SNAT: networkv1alpha1.SNATNode})
	n.awaitForwardRules("the host forwards again", 2)
	n.stopAgent()
	if _, err := n.uninstall(false); err != nil {
		t.Fatal(err)
	}
	n.awaitForwardRules("Weft is removed", 0)
}

func TestAnotherFirewallThatDropsIsNamed(t *testing.T) {
	n, _ := localNode(t)
	n.nft("add table inet fw; add chain inet fw fw { type filter hook forward priority 0; policy drop; }")
	n.Cleanup(func() { n.nft("delete table inet fw") })
	n.until("the condition", func() error {
		return n.reason(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonForwardingBlocked)
	})
	n.must(n.gatewayMessage(`chain fw of table inet fw drops packets that the host forwards for pods`))
	n.nft("add rule inet fw fw iifname ovn-k8s-mp0 accept; add rule inet fw fw oifname ovn-k8s-mp0 accept")
	n.until("the rules", func() error { return n.reason(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonAsExpected) })
}

func (n *node) gatewayMessage(want string) error {
	n.Helper()
	s := n.status()
	if s == nil {
		return errors.New("no NodeNetwork")
	}
	c := meta.FindStatusCondition(s.Conditions, networkv1alpha1.ConditionGatewayReady)
	return isTrue(c != nil && strings.Contains(c.Message, want), fmt.Sprintf("%+v", c))
}

// The userspace datapath reads pods' frames by packet taps, and the guards keep them from the host's stack.
func TestFlushedGuardsComeBack(t *testing.T) {
	r := &repaired{kinds: map[string]int{}}
	n := readyNodeWith(t, func(o *agent.Options) { o.ObserveRepair = r.observe })
	if agent.Datapath() != networkv1alpha1.DatapathNetdev {
		t.Skip("the kernel's datapath needs no guards")
	}
	n.giveNIC()
	n.setGateway(networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayLocal, SNAT: networkv1alpha1.SNATNode})
	p := n.newPod("web", 20)
	n.givePort(p)
	result := n.add(p)
	guarded := func() error {
		out, err := exec.Command("nft", "list", "table", "netdev", "weft-guard").CombinedOutput()
		return isTrue(err == nil && strings.Count(string(out), "policy drop") == 1 && !strings.Contains(string(out), "dormant"), string(out))
	}
	n.until("the guard", guarded)
	n.until("the gateway", func() error { return n.reason(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonAsExpected) })
	for _, commands := range []string{"flush ruleset", "delete table netdev weft-guard", "add table netdev weft-guard { flags dormant; }"} {
		n.nft(commands)
		n.until(commands, guarded)
	}
	n.until("the metric", func() error { return isTrue(r.count(repairs.Nftables) >= 3, "too few repairs") }) // of both tables at first
	n.must(n.check(p, result))
}
