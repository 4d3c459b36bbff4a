package nftables_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gnftables "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/nftables"
)

var pods = desired.Forwarding{Links: []string{"ovn-k8s-mp0"}, IPv4: true, IPv6: true}

// noFirewall removes all tables, now and after the test.
func noFirewall(t *testing.T) {
	t.Helper()
	nft(t, "flush ruleset")
	t.Cleanup(func() { nft(t, "flush ruleset") })
}

// iptables gives the chain of iptables-nft for forwarded packets of a family a policy, and a rule of Docker.
func iptables(t *testing.T, family, policy string) {
	t.Helper()
	nft(t, fmt.Sprintf("add table %s filter\n"+
		"add chain %[1]s filter FORWARD { type filter hook forward priority filter; policy %s; }", family, policy))
	if !slices.Contains(forwardRules(t, family+" filter FORWARD"), docker) {
		nft(t, fmt.Sprintf("add rule %s filter FORWARD iifname docker0 counter accept", family))
	}
}

// forwardRules returns the rules of a chain, in order.
func forwardRules(t *testing.T, chain string) (rules []string) {
	t.Helper()
	for line := range strings.Lines(nft(t, append([]string{"list", "chain"}, strings.Fields(chain)...)...)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "iifname") || strings.HasPrefix(line, "oifname") {
			rules = append(rules, strings.Replace(line, "counter packets 0 bytes 0 ", "", 1))
		}
	}
	return rules
}

func forward(t *testing.T, f *nftables.Firewall, want desired.Forwarding, wantChanged bool, wantDrops ...string) {
	t.Helper()
	got, err := f.Apply(want)
	if err != nil {
		t.Fatal(err)
	}
	if got.Changed != wantChanged {
		t.Errorf("changed is %t, want %t:\n%s", got.Changed, wantChanged, nft(t, "-a", "list", "ruleset"))
	}
	if (got.Drops != nil) != (len(wantDrops) > 0) {
		t.Errorf("drops is %v, want %q", got.Drops, wantDrops)
	}
	for _, text := range wantDrops {
		if got.Drops != nil && !strings.Contains(got.Drops.Error(), text) {
			t.Errorf("drops is %v, want %q", got.Drops, text)
		}
	}
}

var accepts = []string{`oifname "ovn-k8s-mp0" accept comment "weft"`, `iifname "ovn-k8s-mp0" accept comment "weft"`}

const docker = `iifname "docker0" accept`

func wantRules(t *testing.T, chain string, want ...string) {
	t.Helper()
	if got := forwardRules(t, chain); !slices.Equal(got, want) {
		t.Errorf("%s has %q, want %q", chain, got, want)
	}
}

// restored writes Weft's rules as iptables-restore does after iptables-save: their comment is an extension of iptables.
func restored(t *testing.T) {
	t.Helper()
	nft(t, "flush chain ip filter FORWARD")
	conn, err := gnftables.New()
	if err != nil {
		t.Fatal(err)
	}
	table := &gnftables.Table{Family: gnftables.TableFamilyIPv4, Name: "filter"}
	comment := xt.Unknown(append([]byte("weft"), make([]byte, 252)...))
	for _, key := range []expr.MetaKey{expr.MetaKeyIIFNAME, expr.MetaKeyOIFNAME} {
		conn.AddRule(&gnftables.Rule{Table: table, Chain: &gnftables.Chain{Name: "FORWARD", Table: table}, Exprs: []expr.Any{
			&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte("ovn-k8s-mp0\x00")},
			&expr.Match{Name: "comment", Info: &comment}, &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictAccept}}})
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	nft(t, "add rule ip filter FORWARD iifname docker0 counter accept")
}

func TestIPTablesLetsPodsPass(t *testing.T) {
	noFirewall(t)
	iptables(t, "ip", "drop")
	iptables(t, "ip6", "accept")
	f := &nftables.Firewall{}
	forward(t, f, pods, true)
	wantRules(t, "ip filter FORWARD", append(slices.Clone(accepts), docker)...)
	wantRules(t, "ip6 filter FORWARD", docker)
	forward(t, f, pods, false)
	forward(t, &nftables.Firewall{}, pods, false)
	for name, change := range map[string]string{
		"a flush": "flush chain ip filter FORWARD",
		"a reload": "flush ruleset; add table ip filter; " +
			"add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }",
		"a rule that no longer accepts": `insert rule ip filter FORWARD iifname "ovn-k8s-mp0" drop comment "weft"`,
		"another link's rule":           `insert rule ip filter FORWARD iifname "eth0" counter accept comment "weft"`,
	} {
		t.Run(name, func(t *testing.T) {
			nft(t, change)
			forward(t, f, pods, true)
			for _, want := range accepts {
				if got := forwardRules(t, "ip filter FORWARD"); !slices.Contains(got, want) {
					t.Errorf("%q is missing: %q", want, got)
				}
			}
			if list := nft(t, "list ruleset"); strings.Count(list, `comment "weft"`) != len(accepts) {
				t.Errorf("the ruleset is:\n%s", list)
			}
		})
	}
	restored(t)
	forward(t, f, pods, false)
	iptables(t, "ip", "accept")
	forward(t, f, pods, true)
	wantRules(t, "ip filter FORWARD", docker)
	iptables(t, "ip", "drop")
	forward(t, f, pods, true)
	forward(t, f, desired.Forwarding{}, true) // another mode, or the end of Weft
	if list := nft(t, "list ruleset"); strings.Contains(list, "weft") {
		t.Errorf("the ruleset is:\n%s", list)
	}
}

func TestOnlyPodsFamiliesPass(t *testing.T) {
	noFirewall(t)
	iptables(t, "ip", "drop")
	iptables(t, "ip6", "drop")
	f, want := &nftables.Firewall{}, pods
	want.IPv4 = false
	forward(t, f, want, true)
	wantRules(t, "ip filter FORWARD", docker)
	wantRules(t, "ip6 filter FORWARD", append(slices.Clone(accepts), docker)...)
	want.Links = append(slices.Clone(want.Links), "weft-egress0")
	forward(t, f, want, true)
	if got := forwardRules(t, "ip6 filter FORWARD"); len(got) != 5 {
		t.Errorf("the rules are %q", got)
	}
}

// Chains of an administrator's firewall are reported, not changed.
func TestOtherFirewallsAreNamed(t *testing.T) {
	const (
		missing = `add to the chain: iifname "ovn-k8s-mp0" accept; oifname "ovn-k8s-mp0" accept`
		drops   = "add table inet f; add chain inet f f { type filter hook forward priority 0; policy drop; }; "
		accepts = "add table inet f; add chain inet f f { type filter hook forward priority 10; policy accept; }; "
	)
	for name, c := range map[string]struct {
		ruleset string
		drops   []string
	}{
		"policy drop": {drops, []string{"chain f of table inet f drops", missing}},
		"policy drop in two tables": {"add table ip a; add chain ip a b { type filter hook forward priority 0; policy drop; }; " +
			"add table ip6 c; add chain ip6 c d { type filter hook forward priority 0; policy drop; }",
			[]string{"chain b of table ip a", "chain d of table ip6 c"}},
		"a last rule that rejects": {accepts + "add rule inet f f ct state established accept; " +
			"add rule inet f f log prefix x counter reject with icmpx admin-prohibited", []string{"chain f of table inet f"}},
		"a last rule that drops": {accepts + "add rule inet f f counter drop", []string{"chain f of table inet f"}},
		"another link's rule":    {drops + "add rule inet f f iifname eth0 accept", []string{"chain f of table inet f"}},
		"policy accept":          {accepts, nil},
		"another hook":           {"add table inet f; add chain inet f f { type filter hook input priority 0; policy drop; }", nil},
		"a dormant table":        {drops + "add table inet f { flags dormant; }", nil},
		"some are dropped":       {accepts + "add rule inet f f iifname eth0 drop", nil},
		"a rule of the link":     {drops + "add rule inet f f iifname ovn-k8s-mp0 accept", nil},
		"a rule of the link in another chain": {drops + "add chain inet f g; add rule inet f g oifname ovn-k8s-mp0 accept; " +
			"add rule inet f f jump g", nil},
		"the link in a set of a rule": {drops + "add rule inet f f iifname { eth0, ovn-k8s-mp0 } accept", nil},
		"the link in a set": {drops + "add set inet f trusted { type ifname; elements = { ovn-k8s-mp0 }; }; " +
			"add rule inet f f iifname @trusted accept", nil},
		"the link in a map": {drops + "add map inet f zones { type ifname . ipv4_addr : verdict; }; " +
			"add element inet f zones { ovn-k8s-mp0 . 192.0.2.1 : accept }; add rule inet f f iifname . ip saddr vmap @zones", nil},
		"bridges": {"add table bridge f; add chain bridge f f { type filter hook forward priority 0; policy drop; }", nil},
	} {
		t.Run(name, func(t *testing.T) {
			noFirewall(t)
			nft(t, c.ruleset)
			before := nft(t, "list ruleset")
			forward(t, &nftables.Firewall{}, pods, false, c.drops...)
			forward(t, &nftables.Firewall{}, desired.Forwarding{}, false)
			if after := nft(t, "list ruleset"); after != before {
				t.Errorf("the ruleset is:\n%s\nwant:\n%s", after, before)
			}
		})
	}
}

// watchedFirewall is a Firewall with its watch.
type watchedFirewall struct {
	*nftables.Firewall
	calls
}

func TestTheWatchReportsFirewalls(t *testing.T) {
	noFirewall(t)
	w := &watchedFirewall{Firewall: &nftables.Firewall{}}
	runWatch(t, nftables.Watched{Object: w.Firewall, Changed: w.called})
	w.await(t, 1)
	forward(t, w.Firewall, pods, false)
	for i, step := range []struct {
		nft     string
		changed bool
		drops   []string
	}{
		{"add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy accept; }", false, nil},
		{"add chain ip filter FORWARD { policy drop; }", true, nil},
		{"flush chain ip filter FORWARD", true, nil},
		{"delete table ip filter", false, nil},
		{"add table inet f; add chain inet f f { type filter hook forward priority 0; policy drop; }", false, []string{"inet f"}},
		{"add chain inet f g; add rule inet f g iifname ovn-k8s-mp0 accept", false, nil},
		{"flush chain inet f g; add set inet f s { type ifname; }", false, []string{"inet f"}},
		{"add element inet f s { ovn-k8s-mp0 }", false, nil},
		{"flush set inet f s", false, []string{"inet f"}},
		{"add table inet f { flags dormant; }", false, nil},
		{"add table inet f", false, []string{"inet f"}},
		{"delete table inet f", false, nil},
	} {
		nft(t, step.nft)
		w.await(t, i+2)
		forward(t, w.Firewall, pods, step.changed, step.drops...)
		forward(t, w.Firewall, pods, false, step.drops...)
	}
}

// Other programs' chains of other hooks, and own writes, cause no comparison.
func TestOtherChainsCostNothing(t *testing.T) {
	noFirewall(t)
	iptables(t, "ip", "drop")
	w := &watchedFirewall{Firewall: &nftables.Firewall{}}
	runWatch(t, nftables.Watched{Object: w.Firewall, Changed: w.called})
	w.await(t, 1)
	forward(t, w.Firewall, pods, true)
	reads := w.Reads()
	for i := range 30 {
		nft(t, fmt.Sprintf("add table ip kube-proxy; add chain ip kube-proxy c%d; add rule ip kube-proxy c%d counter", i, i))
		nft(t, fmt.Sprintf("add chain ip filter DOCKER%d; add rule ip filter DOCKER%d iifname ovn-k8s-mp0 accept", i, i))
		forward(t, w.Firewall, pods, false)
	}
	nft(t, "flush chain ip filter FORWARD")
	w.await(t, 2)
	if got := w.Reads(); got != reads {
		t.Errorf("the chains were read %d times more", got-reads)
	}
	forward(t, w.Firewall, pods, true)
	if got := w.all(); len(got) != 2 {
		t.Errorf("changed was called %d times, want 2", len(got))
	}
}
