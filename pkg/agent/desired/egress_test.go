package desired_test

import (
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
	for _, want := range []desired.Answers{{}, {Link: "eth0"}, {Link: "eth0", Addresses: carried}} {
		u := desired.EgressPort("n1", 1400, "bridge", want)
		for _, row := range u.Rows {
			iface, ok := row.Model.(*vswitchdb.Interface)
			if !ok {
				continue
			}
			if iface.ExternalIDs["iface-id"] != "egress-n1" || *iface.MTURequest != 1400 || *iface.MAC != "0a:58:a9:fe:a9:09" {
				t.Errorf("interface %+v", iface)
			}
			have := desired.ParseAnswers(iface.ExternalIDs)
			if have.Link != want.Link || !slices.Equal(have.Addresses, want.Addresses) {
				t.Errorf("read %+v, want %+v", have, want)
			}
		}
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
