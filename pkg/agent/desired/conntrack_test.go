package desired

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/facts"
)

func TestArgumentsOfStaleEntries(t *testing.T) {
	at := netip.MustParseAddrPort
	for want, stale := range map[string]Stale{
		"ct_nw_proto=17,ct_nw_dst=10.96.0.7,ct_tp_dst=53 ct_nw_proto=17,ct_nw_src=10.244.0.5,ct_tp_src=5353": {
			To: at("10.96.0.7:53"), By: at("10.244.0.5:5353")},
		"zone=64000 ct_nw_proto=17,ct_ipv6_src=fd00::11,ct_tp_src=30053 ct_nw_proto=17": {Zone: zone, From: at("[fd00::11]:30053")},
		"ct_nw_proto=17,ct_tp_dst=30053 ct_nw_proto=17":                                 {To: at("0.0.0.0:30053")},
	} {
		if got := strings.Join(stale.Args(), " "); got != want {
			t.Errorf("%+v: %q, want %q", stale, got, want)
		}
	}
}

// Entries of former endpoints end, and entries that dropped packets while the node had no endpoint.
func TestStaleBackends(t *testing.T) {
	at := netip.MustParseAddrPort
	service := func(from facts.Choice, backends ...facts.Backend) facts.Service {
		return facts.Service{Ports: []facts.ServicePort{
			{Protocol: corev1.ProtocolUDP, VIPs: []facts.VIP{{AddrPort: at("10.96.0.7:53"), From: from}}, Backends: backends},
			{Protocol: corev1.ProtocolTCP, VIPs: []facts.VIP{{AddrPort: at("10.96.0.7:53"), From: from}}, Backends: backends},
		}}
	}
	a, b := facts.Backend{AddrPort: at("10.244.0.5:5353"), Node: "n1"}, facts.Backend{AddrPort: at("10.244.1.5:5353"), Node: "n2"}
	for name, test := range map[string]struct {
		before, after facts.Service
		want          []string
	}{
		"one is gone":        {service(facts.FromAll, a, b), service(facts.FromAll, b), []string{"10.244.0.5:5353"}},
		"one comes":          {service(facts.FromAll, b), service(facts.FromAll, a, b), nil},
		"the service ends":   {service(facts.FromAll, a), facts.Service{}, []string{"10.244.0.5:5353"}},
		"the node gets one":  {service(facts.FromLocal, b), service(facts.FromLocal, a, b), []string{"169.254.169.4:1"}},
		"the policy changes": {service(facts.FromLocal, b), service(facts.FromAll, b), []string{"169.254.169.4:1"}},
	} {
		var got []string
		for _, s := range StaleBackends(UDPBackends(test.before, "n1"), UDPBackends(test.after, "n1")) {
			if s.To != at("10.96.0.7:53") || s.Zone != 0 {
				t.Errorf("%s: %+v", name, s)
			}
			got = append(got, s.By.String())
		}
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// If another program answers a destination than before, all its entries end. Otherwise only entries of the external bridge end.
func TestStaleWays(t *testing.T) {
	at := netip.MustParseAddrPort("172.18.0.11:30053")
	target := func(host bool) map[netip.AddrPort]UDPTarget { return map[netip.AddrPort]UDPTarget{at: {Host: host}} }
	bridge := []Stale{{Zone: zone, To: at}, {Zone: zone, From: at}}
	if diff := cmp.Diff(bridge, StaleWays([]netip.AddrPort{at}, target(true), target(true)), cmp.Comparer(equalStale)); diff != "" {
		t.Errorf("the same program (-want +got):\n%s", diff)
	}
	moved := append(bridge, Stale{To: at})
	if diff := cmp.Diff(moved, StaleWays([]netip.AddrPort{at}, target(true), nil), cmp.Comparer(equalStale)); diff != "" {
		t.Errorf("another program (-want +got):\n%s", diff)
	}
	targets := Targets(moved, target(true))
	if len(targets) != 1 || !targets[at].Host {
		t.Errorf("the targets are %v", targets)
	}
	if own := Targets(moved, nil)[at]; !slices.Equal(own.To, []netip.AddrPort{at}) {
		t.Errorf("a destination that the host does not translate goes to %v", own.To)
	}
}

func equalStale(a, b Stale) bool { return a == b }

// An entry of any protocol is removed by its zone and its whole first direction.
func TestArgumentsOfEntries(t *testing.T) {
	list := strings.Join([]string{
		"tcp,orig=(src=10.244.0.9,dst=192.0.2.7,sport=4000,dport=443),reply=(src=192.0.2.7,dst=172.18.0.100,sport=443,dport=4000)," +
			"zone=9,protoinfo=(state=ESTABLISHED)",
		"icmp,orig=(src=10.244.0.9,dst=192.0.2.7,id=7,type=8,code=0),reply=(src=192.0.2.7,dst=172.18.0.100,id=7,type=0,code=0),zone=9",
		"icmpv6,orig=(src=fd00::9,dst=2001:db8::7,id=7,type=128,code=0),reply=(src=2001:db8::7,dst=fd00:18::100,id=7,type=129,code=0)",
		"47,orig=(src=10.244.0.9,dst=192.0.2.7),reply=(src=192.0.2.7,dst=172.18.0.100),zone=9",
		"tcp,orig=(src=word,dst=192.0.2.7,sport=4000,dport=443),reply=(src=192.0.2.7,dst=172.18.0.100,sport=443,dport=4000)",
		"",
	}, "\n")
	want := []string{
		"zone=9 ct_nw_proto=6,ct_nw_src=10.244.0.9,ct_nw_dst=192.0.2.7,ct_tp_src=4000,ct_tp_dst=443",
		"zone=9 ct_nw_proto=1,ct_nw_src=10.244.0.9,ct_nw_dst=192.0.2.7,icmp_id=7,icmp_type=8,icmp_code=0",
		"zone=0 ct_nw_proto=58,ct_ipv6_src=fd00::9,ct_ipv6_dst=2001:db8::7,icmp_id=7,icmp_type=128,icmp_code=0",
		"zone=9 ct_nw_proto=47,ct_nw_src=10.244.0.9,ct_nw_dst=192.0.2.7",
	}
	var got []string
	for e := range Listed(list) {
		got = append(got, strings.Join(e.Args(), " "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
