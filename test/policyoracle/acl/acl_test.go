package acl

import (
	"net/netip"
	"testing"
)

func packet(protocol, src, dst string, port uint16) *Packet {
	return &Packet{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), Protocol: protocol, SrcPort: 33333,
		DstPort: port, inport: "a", outport: "b"}
}

func base() *Database {
	db := &Database{groups: map[string]*portGroup{"pg": {ports: map[string]bool{"a": true}}, "empty": {}}, sets: map[string]*addresses{}}
	for name, elements := range map[string][]string{"web": {"10.0.0.1", "10.1.0.0/16"}, "none": nil} {
		s := &addresses{single: map[netip.Addr]bool{}}
		for _, e := range elements {
			if err := s.add(e); err != nil {
				panic(err)
			}
		}
		db.sets[name] = s
	}
	return db
}

// TestMatches tests each part of the match language with a TCP packet over IPv4 and a UDP packet over IPv6.
func TestMatches(t *testing.T) {
	tcp4, udp6 := packet("tcp", "10.0.0.1", "10.0.0.2", 80), packet("udp", "fd00::1", "fd00::2", 53)
	for _, test := range []struct {
		match      string
		tcp4, udp6 bool
	}{
		{"ip", true, true}, {"ip4", true, false}, {"!ip4", false, true}, {"ip6 && udp", false, true},
		{"tcp", true, false}, {"!tcp", false, true},
		{"icmp4 || icmp6 || sctp", false, false}, {"arp || nd", false, false}, {"!(arp || nd)", true, true},
		{"1", true, true}, {"0", false, false},
		{"ip4.src == 10.0.0.1", true, false}, {"ip4.src == 10.0.0.0/24", true, false},
		{"ip4.src == 10.0.0.7/24", true, false}, {"ip4.src == {10.9.0.0/16, 10.0.0.1}", true, false},
		{"ip4.src != 10.0.0.1", false, false}, {"ip4.src != 10.0.0.2", true, false},
		{"ip4.src != {10.0.0.2, 10.0.0.1}", false, false}, {"!(ip4.src == 10.0.0.2)", true, false},
		{"!(ip4.src == 10.0.0.1 || ip4.src == 10.0.0.5)", false, false}, {"ip6.dst == fd00::/64", false, true},
		{"ip6.dst == ::/0", false, true},
		{"ip4.src == $web", true, false}, {"ip4.src != $web", false, false}, {"ip4.src == {$none, $web}", true,
			false}, {"ip4.src == $none", false, false}, {"ip4.src != $none", true, false},
		{"inport == @pg", true, true}, {"outport == @pg", false, false}, {"inport == @empty", false, false},
		{`outport == "b"`, true, true}, {`inport != "a"`, false, false},
		{"tcp.dst == 80", true, false}, {"tcp.dst == {79, 80}", true, false}, {"79 <= tcp.dst <= 81", true, false},
		{"80 < tcp.dst < 90", false, false}, {"tcp.dst >= 80 && tcp.dst <= 80", true, false},
		{"90 >= tcp.dst > 79", true, false}, {"tcp.dst == 0x50/0xfff0", true, false},
		{"!(tcp.dst == 53)", true, false}, {"tcp.dst != 80 || udp.dst == 53", false, true},
		{"udp.src > 1000", false, true},
		{"ip4 && (tcp.dst == 80 || tcp.dst == 443)", true, false}, {"ip.proto == 17", false, true}, {"ct.new && !ct.est", true, true},
	} {
		e, _, err := parse(test.match, base())
		if err != nil {
			t.Errorf("%s: %v", test.match, err)
			continue
		}
		if got4, got6 := e.matches(tcp4), e.matches(udp6); got4 != test.tcp4 || got6 != test.udp6 {
			t.Errorf("%s matches IPv4 TCP %v, IPv6 UDP %v; want %v, %v", test.match, got4, got6, test.tcp4, test.udp6)
		}
	}
}

// TestRefused tests matches that OVN would refuse, or drop with a warning.
func TestRefused(t *testing.T) {
	for _, match := range []string{"", "ip4 && ip6 || tcp", "ip4.src == $absent", "inport == @absent",
		"ip4.src == fd00::1", "ip4.src < 10.0.0.1", "tcp.dst == {1, 2", "tcp.dst = 80",
		"(ip4", "ip4)", "outport == b", "frob == 1", "ip4.src", "1 <= tcp.dst >= 2", "tcp.dst == 65536",
		`inport == "a`, "tcp.dst == $web", "&& ip4", "ip4 &&", "1 < frob"} {
		if _, _, err := parse(match, base()); err == nil {
			t.Errorf("%q was accepted", match)
		}
	}
}
