package ovnexpr

import (
	"net/netip"
	"testing"
)

func TestMatches(t *testing.T) {
	p := netip.MustParsePrefix
	for want, m := range map[string]Match{
		"":                       And(),
		"ip":                     And(Match{}, IP(), Or()),
		"inport == @g && ip":     And(FromGroup("g"), IP()),
		"ip4.dst == 192.0.2.1":   ToNetworks(p("192.0.2.1/32")),
		"ip6.dst == ::/0":        ToNetworks(p("::/0")),
		"ip4.mcast || ip6.mcast": Multicast(),
		"inport == @g && (ip4.dst == $a || ip6.dst == $b) && tcp.dst == 443": And(FromGroup("g"), ToSets("a", "b"),
			ToPorts(Ports{"tcp", 443, 443})),
		"ip4.dst == {10.0.0.0/8, 192.0.2.1} || ip6.dst == fd00::/8": ToNetworks(p("10.0.0.0/8"), p("fd00::/8"), p("192.0.2.1/32")),
		"sctp || 1000 <= udp.dst <= 2000 || tcp.dst == {80, 443}": ToPorts(Ports{Protocol: "sctp"}, Ports{"tcp", 80, 80},
			Ports{"udp", 1000, 2000}, Ports{"tcp", 443, 0}),
		"(ip || ip4.mcast || ip6.mcast) && (tcp || udp)": And(Or(IP(), Multicast()),
			ToPorts(Ports{Protocol: "tcp"}, Ports{Protocol: "udp"})),
	} {
		if m.String() != want {
			t.Errorf("%q, want %q", m, want)
		}
	}
}
