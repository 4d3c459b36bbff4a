package nftables_test

import (
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/nftables"
	"github.com/weft-network/weft/pkg/ipam/reserved"
)

func nft(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("nft", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("nft %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// rules returns the rules of a node in Local mode, which has the most.
func rules() desired.HostRules {
	frontend := func(clusterIP, address string, port, nodePort uint16, sources ...string) desired.Frontend {
		f := desired.Frontend{
			Protocol: corev1.ProtocolTCP, Port: port, NodePort: nodePort,
			ClusterIP: netip.MustParseAddr(clusterIP), ClusterPort: 80,
		}
		if address != "" {
			f.Address = netip.MustParseAddr(address)
		}
		for _, source := range sources {
			f.Sources = append(f.Sources, netip.MustParsePrefix(source))
		}
		return f
	}
	local := frontend("10.96.0.8", "", 30081, 30081)
	local.Local, local.Dropped = true, true
	own := []netip.Addr{netip.MustParseAddr("172.18.0.11"), netip.MustParseAddr("fd00:18::11")}
	return desired.HostRules{
		Mode: networkv1alpha1.GatewayLocal, SNAT: networkv1alpha1.SNATNode,
		Addresses: desired.Addresses{Own: own, Ports: own},
		Pods:      []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")},
		Subnets:   []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")},
		Services:  []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/112")},
		Reserved:  reservedTable(),
		Frontends: []desired.Frontend{
			frontend("10.96.0.7", "", 30080, 30080), frontend("fd00:10:96::7", "", 30080, 30080),
			frontend("fd00:10:96::7", "2001:db8::9", 80, 30080, "2001:db8:1::/64", "2001:db8:2::1/128"),
			frontend("10.96.0.7", "192.0.2.9", 80, 30080, "198.51.100.0/24", "203.0.113.9/32"), local,
		},
	}
}

// reservedTable has reserved destinations on the node itself, on another node, and at an external API server.
func reservedTable() reserved.Table {
	return reserved.Table{
		Ports:        reserved.Defaults(),
		Destinations: reserved.Remotes("the Kubernetes API server", "tcp:192.0.2.1:443", "tcp:[2001:db8::1]:443"),
		Nodes:        map[netip.Addr]string{netip.MustParseAddr("172.18.0.11"): "n1", netip.MustParseAddr("fd00:18::12"): ""},
	}
}

// spread returns a node port whose endpoint the host itself chooses.
func spread(clusterIP, own, other string) desired.Frontend {
	both := []netip.AddrPort{netip.MustParseAddrPort(own), netip.MustParseAddrPort(other)}
	return desired.Frontend{
		Protocol: corev1.ProtocolTCP, Port: 30082, NodePort: 30082,
		ClusterIP: netip.MustParseAddr(clusterIP), ClusterPort: 80, Inside: both, Outside: both, ByHost: true,
	}
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

// fresh removes Weft's table from the kernel and returns a new Table.
func fresh(t *testing.T) *nftables.Table {
	t.Helper()
	table := &nftables.Table{}
	if err := table.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	return table
}

func TestNothingIsWrittenWhenNothingDiffers(t *testing.T) {
	for name, mode := range map[string]networkv1alpha1.GatewayMode{
		"Local": networkv1alpha1.GatewayLocal, "Shared": networkv1alpha1.GatewayShared,
	} {
		t.Run(name, func(t *testing.T) {
			facts := rules()
			facts.Mode = mode
			facts.Frontends = append(facts.Frontends, spread("10.96.0.9", "172.18.0.11:8080", "172.18.0.12:8080"),
				spread("fd00:10:96::9", "[fd00:18::11]:8080", "[fd00:18::12]:8080"))
			apply(t, fresh(t), facts.Table(), true)
			restarted := &nftables.Table{}
			apply(t, restarted, facts.Table(), false)
			apply(t, restarted, facts.Table(), false)
		})
	}
}

// When services are added and removed, the rules keep their handles.
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
		t.Errorf("the rules were recreated: %s", got)
	}
}

func TestTheModeChanges(t *testing.T) {
	table, facts := fresh(t), rules()
	apply(t, table, facts.Table(), true)
	facts.Mode = networkv1alpha1.GatewayShared
	apply(t, table, facts.Table(), true)
	got := nft(t, "list", "table", "inet", "weft")
	if strings.Contains(got, "10.244.0.0/16") || !strings.Contains(got, "fib saddr type != local masquerade") {
		t.Errorf("the table is:\n%s", got)
	}
	facts.Mode = networkv1alpha1.GatewayLocal
	apply(t, table, facts.Table(), true)
	facts.SNAT = networkv1alpha1.SNATNone
	apply(t, table, facts.Table(), true)
	if got := nft(t, "list", "table", "inet", "weft"); strings.Contains(got, "ip saddr 10.244.0.0/16 oifname !=") {
		t.Errorf("pods are translated:\n%s", got)
	}
}

// A running agent restores a removed table. An agent that starts also restores rules and elements.
func TestForeignChangesAreReverted(t *testing.T) {
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

func TestForeignTablesStay(t *testing.T) {
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

// The test puts a reserved port of the host into every map, as a bug elsewhere might. Clients must still reach the
// host's own listener.
func TestReservedPortsAreSpared(t *testing.T) {
	link, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1", "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(address, "10250"))
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		want := rules()
		clusterIP := map[bool]string{true: "10.96.0.7", false: "fd00:10:96::7"}[netip.MustParseAddr(address).Is4()]
		want.Frontends = append(want.Frontends, desired.Frontend{
			Address: netip.MustParseAddr(address), Protocol: corev1.ProtocolTCP, Port: 10250,
			ClusterIP: netip.MustParseAddr(clusterIP), ClusterPort: 80,
		})
		apply(t, fresh(t), want.Table(), true)
		dialer := net.Dialer{Timeout: 5 * time.Second}
		conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Errorf("%s: %v\n%s", address, err, nft(t, "list", "table", "inet", "weft"))
			continue
		}
		conn.Close()
	}
}

// The test begins with the table of an earlier agent that did not yet have reserved destinations.
func TestReservedPortsAreFreed(t *testing.T) {
	former := rules()
	former.Reserved = reserved.Table{}
	for _, address := range []string{"172.18.0.11", "192.0.2.1"} {
		for _, port := range []uint16{443, 6641, 8080} {
			former.Frontends = append(former.Frontends, desired.Frontend{
				Address: netip.MustParseAddr(address), Protocol: corev1.ProtocolTCP, Port: port,
				ClusterIP: netip.MustParseAddr("10.96.0.7"), ClusterPort: 80,
			})
		}
	}
	table := fresh(t)
	apply(t, table, former.Table(), true)
	removed, err := (&nftables.Table{}).Free(t.Context(), reservedTable())
	if err != nil {
		t.Fatal(err)
	}
	const maps = 2
	if removed != 3*maps { // port 6641 at both addresses, and port 443 of the API server
		t.Errorf("%d elements were removed, want %d", removed, 3*maps)
	}
	list := nft(t, "list", "table", "inet", "weft")
	for text, want := range map[string]bool{
		"172.18.0.11 . tcp . 6641": false, "192.0.2.1 . tcp . 6641": false, "192.0.2.1 . tcp . 443": false,
		"172.18.0.11 . tcp . 443": true, "172.18.0.11 . tcp . 8080": true, "192.0.2.1 . tcp . 8080": true,
	} {
		if strings.Contains(list, text) != want {
			t.Errorf("element %s exists: %t, want %t\n%s", text, !want, want, list)
		}
	}
	if again, err := (&nftables.Table{}).Free(t.Context(), reservedTable()); err != nil || again != 0 {
		t.Errorf("the second call removed %d elements: %v", again, err)
	}
	if without, err := fresh(t).Free(t.Context(), reservedTable()); err != nil || without != 0 {
		t.Errorf("without a table, the call removed %d elements: %v", without, err)
	}
}
