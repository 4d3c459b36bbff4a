package desired_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
)

var carried = []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")}

func TestEgressHost(t *testing.T) {
	route4 := desired.Route{Destination: netip.MustParsePrefix("192.0.2.7/32"), Gateway: netip.MustParseAddr("169.254.169.10")}
	route6 := desired.Route{Destination: netip.MustParsePrefix("2001:db8::7/128"), Gateway: netip.MustParseAddr("fd69::a")}
	own4, own6 := netip.MustParsePrefix("169.254.169.9/30"), netip.MustParsePrefix("fd69::9/126")
	for name, c := range map[string]struct {
		is4, is6 bool
		want     desired.Host
	}{
		"IPv4":       {true, false, desired.Host{Addresses: []netip.Prefix{own4}, Routes: []desired.Route{route4}}},
		"IPv6":       {false, true, desired.Host{Addresses: []netip.Prefix{own6}, Routes: []desired.Route{route6}}},
		"dual stack": {true, true, desired.Host{Addresses: []netip.Prefix{own4, own6}, Routes: []desired.Route{route4, route6}}},
	} {
		t.Run(name, func(t *testing.T) {
			have := desired.EgressHost(carried, c.is4, c.is6)
			if !slices.Equal(have.Addresses, c.want.Addresses) || !slices.Equal(have.Routes, c.want.Routes) {
				t.Errorf("%+v, want %+v", have, c.want)
			}
		})
	}
}

// The record of the answers is read as it was written.
func TestAnswersAreRecorded(t *testing.T) {
	for _, want := range []desired.Answers{{}, {carried[0]: "eth0"}, {carried[0]: "eth0", carried[1]: "eth1.5"}} {
		ids := map[string]string{}
		for _, m := range desired.Answering(want).Members {
			ids[m.Element] = m.Value
		}
		if have := desired.ParseAnswers(ids); !maps.Equal(have, want) || len(ids) != 1 {
			t.Errorf("read %+v of %v, want %+v", have, ids, want)
		}
	}
}

func TestEgressPort(t *testing.T) {
	for _, row := range desired.EgressPort("n1", 1400, "bridge").Rows {
		iface, ok := row.Model.(*vswitchdb.Interface)
		if ok && (iface.ExternalIDs["iface-id"] != "egress-n1" || *iface.MTURequest != 1400 || *iface.MAC != "0a:58:a9:fe:a9:09") {
			t.Errorf("interface %+v", iface)
		}
	}
}

// An address is answered on the link with its network, and without one on the link outside.
func TestLinksOf(t *testing.T) {
	links := []desired.Link{{Name: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24")}},
		{Name: "eth1", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")}},
		{Name: "eth2", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}}}
	other := netip.MustParseAddr("203.0.113.9")
	have := desired.LinksOf(append([]netip.Addr{other, netip.MustParseAddr("198.51.100.7")}, carried...), links)
	want := desired.Answers{other: "eth0", netip.MustParseAddr("198.51.100.7"): "eth0", carried[0]: "eth1", carried[1]: "eth1"}
	if !maps.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
	if on := have.On("eth1"); !slices.Equal(on, carried) {
		t.Errorf("on eth1 are %v", on)
	}
	moved := desired.Answers{other: "eth0", carried[0]: "eth2"}
	if left := moved.Without(have); !maps.Equal(left, desired.Answers{carried[0]: "eth2"}) {
		t.Errorf("left are %v", left)
	}
}

func TestFurtherLinks(t *testing.T) {
	many := make([]desired.Link, 20)
	if status := desired.FurtherLinks(many); len(status) != 16 {
		t.Errorf("%d links, which the API server refuses", len(status))
	}
	status := desired.FurtherLinks([]desired.Link{{Name: "eth1", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}})
	if len(status) != 1 || status[0].Name != "eth1" || len(status[0].Addresses) != 1 || status[0].Addresses[0] != "192.0.2.1/24" {
		t.Errorf("%+v", status)
	}
}

// Packets to an egress IP do not go back and forth between the host and the router.
func TestRulesOfEgress(t *testing.T) {
	var loops []string
	for _, chain := range (desired.HostRules{Mode: "Local", Egress: true}).Table().Chains {
		loops = append(loops, chain.Rules...)
	}
	var without []string
	for _, chain := range (desired.HostRules{Mode: "Local"}).Table().Chains {
		without = append(without, chain.Rules...)
	}
	more := slices.DeleteFunc(loops, func(rule string) bool { return slices.Contains(without, rule) })
	want := []string{`iifname "weft-egress0" oifname "weft-egress0" drop`, `iifname "weft-egress0" udp dport 6081 drop`}
	if diff := cmp.Diff(want, more); diff != "" {
		t.Error(diff)
	}
}
