package nftables_test

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/nftables"
)

func nft(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("nft", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("nft %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// rules are those of a node in Local mode, which has the most.
func rules() desired.HostRules {
	frontend := func(clusterIP, address string, port, nodePort uint16, sources ...string) desired.Frontend {
		f := desired.Frontend{Protocol: corev1.ProtocolTCP, Port: port, ClusterIP: netip.MustParseAddr(clusterIP), ClusterPort: 80, NodePort: nodePort}
		if address != "" {
			f.Address = netip.MustParseAddr(address)
		}
		for _, source := range sources {
			f.Sources = append(f.Sources, netip.MustParsePrefix(source))
		}
		return f
	}
	local := frontend("10.96.0.8", "", 30081, 30081)
	local.Local = true
	return desired.HostRules{
		Mode: networkv1alpha1.GatewayLocal, SNAT: networkv1alpha1.SNATNode,
		Addresses: []netip.Addr{netip.MustParseAddr("172.18.0.11"), netip.MustParseAddr("fd00:18::11")},
		Pods:      []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")},
		Frontends: []desired.Frontend{
			frontend("10.96.0.7", "", 30080, 30080), frontend("fd00:10:96::7", "", 30080, 30080),
			frontend("fd00:10:96::7", "2001:db8::9", 80, 30080, "2001:db8:1::/64", "2001:db8:2::1/128"),
			frontend("10.96.0.7", "192.0.2.9", 80, 30080, "198.51.100.0/24", "203.0.113.9/32"), local,
		},
	}
}

// spread is a node port of which the host chooses the endpoint.
func spread(clusterIP, own, other string) desired.Frontend {
	return desired.Frontend{Protocol: corev1.ProtocolTCP, Port: 30082, NodePort: 30082, ClusterIP: netip.MustParseAddr(clusterIP), ClusterPort: 80,
		Own: netip.MustParseAddrPort(own), Spread: []netip.AddrPort{netip.MustParseAddrPort(own), netip.MustParseAddrPort(other)}}
}

func apply(t *testing.T, table *nftables.Table, want desired.NftTable, wantChanged bool) {
	t.Helper()
	changed, err := table.Apply(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	if changed != wantChanged {
		t.Errorf("changed is %v, want %v:\n%s", changed, wantChanged, nft(t, "list", "ruleset"))
	}
}

// fresh leaves the kernel without a table of ours.
func fresh(t *testing.T) *nftables.Table {
	t.Helper()
	table := &nftables.Table{}
	if err := table.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	return table
}

func TestNothingIsWrittenWhenNothingDiffers(t *testing.T) {
	for name, mode := range map[string]networkv1alpha1.GatewayMode{"Local": networkv1alpha1.GatewayLocal, "Shared": networkv1alpha1.GatewayShared, "apart": networkv1alpha1.GatewayShared} {
		t.Run(name, func(t *testing.T) {
			facts := rules()
			facts.Mode, facts.Apart = mode, name == "apart"
			facts.Frontends = append(facts.Frontends, spread("10.96.0.9", "172.18.0.11:8080", "172.18.0.12:8080"), spread("fd00:10:96::9", "[fd00:18::11]:8080", "[fd00:18::12]:8080"))
			apply(t, fresh(t), facts.Table(), true)
			restarted := &nftables.Table{}
			apply(t, restarted, facts.Table(), false)
			apply(t, restarted, facts.Table(), false)
		})
	}
}

// TestOnlyElementsAreWritten when services come and go: the rules keep their numbers.
func TestOnlyElementsAreWritten(t *testing.T) {
	table, facts := fresh(t), rules()
	all := facts.Frontends
	facts.Frontends = all[:2]
	apply(t, table, facts.Table(), true)
	handles := nft(t, "-a", "list", "chain", "inet", "weft", "prerouting")
	for _, frontends := range [][]desired.Frontend{all, all[2:], nil, all} {
		facts.Frontends = frontends
		apply(t, table, facts.Table(), true)
		apply(t, &nftables.Table{}, facts.Table(), false)
	}
	if got := nft(t, "-a", "list", "chain", "inet", "weft", "prerouting"); got != handles {
		t.Errorf("the rules were made anew: %s", got)
	}
}

func TestTheModeChanges(t *testing.T) {
	table, facts := fresh(t), rules()
	apply(t, table, facts.Table(), true)
	facts.Mode = networkv1alpha1.GatewayShared
	apply(t, table, facts.Table(), true)
	if got := nft(t, "list", "table", "inet", "weft"); strings.Contains(got, "chain filter") || !strings.Contains(got, "chain output") {
		t.Errorf("the table is:\n%s", got)
	}
	facts.Mode = networkv1alpha1.GatewayLocal
	apply(t, table, facts.Table(), true)
	facts.SNAT = networkv1alpha1.SNATNone
	apply(t, table, facts.Table(), true)
	if got := nft(t, "list", "table", "inet", "weft"); strings.Contains(got, "10.244.0.0/16") {
		t.Errorf("pods are translated:\n%s", got)
	}
}

// TestWhatOthersChangeComesBack, as far as an agent that runs or starts can tell.
func TestWhatOthersChangeComesBack(t *testing.T) {
	table, facts := fresh(t), rules()
	apply(t, table, facts.Table(), true)
	nft(t, "flush", "ruleset")
	apply(t, table, facts.Table(), true)
	nft(t, "flush", "chain", "inet", "weft", "postrouting")
	apply(t, &nftables.Table{}, facts.Table(), true)
	nft(t, "flush", "map", "inet", "weft", "cluster4")
	apply(t, &nftables.Table{}, facts.Table(), true)
	nft(t, "add", "rule", "inet", "weft", "output", "counter")
	apply(t, &nftables.Table{}, facts.Table(), true)
	apply(t, &nftables.Table{}, facts.Table(), false)
}

// TestOthersTablesStay.
func TestOthersTablesStay(t *testing.T) {
	table := fresh(t)
	nft(t, "add", "table", "inet", "theirs")
	apply(t, table, rules().Table(), true)
	if err := table.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := nft(t, "list", "ruleset"); !strings.Contains(got, "theirs") || strings.Contains(got, "weft") {
		t.Errorf("the ruleset is:\n%s", got)
	}
}
