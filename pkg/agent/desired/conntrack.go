package desired

import (
	"fmt"
	"iter"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
)

// Stale selects conntrack entries of Open vSwitch for UDP that must end: a client that keeps sending would keep the endpoint or
// the way of its first datagram.
type Stale struct {
	// Zone is a conntrack zone; 0: all.
	Zone int
	// From and To are the source and the destination of the first datagram, By is who answers. An invalid one selects any, and
	// an unspecified address any address with that port.
	From, To, By netip.AddrPort
}

// Args returns the arguments of ovs-vswitchd's command dpctl/flush-conntrack after the datapath's name (ovs-dpctl(8)).
func (s Stale) Args() (args []string) {
	if s.Zone != 0 {
		args = append(args, fmt.Sprint("zone=", s.Zone))
	}
	return append(args, tuple(s.From, s.To), tuple(s.By, netip.AddrPort{}))
}

// String names the entries in errors.
func (s Stale) String() string {
	text := "UDP conntrack entries"
	for _, part := range []struct {
		preposition string
		at          netip.AddrPort
	}{{"from", s.From}, {"to", s.To}, {"answered by", s.By}} {
		if part.at.IsValid() {
			text += fmt.Sprintf(" %s %s", part.preposition, part.at)
		}
	}
	return text
}

// Entry is an entry of Open vSwitch's conntrack.
type Entry struct {
	// Protocol is ovs-vswitchd's word, such as "tcp", or a number.
	Protocol string
	Zone     int
	// Orig is what the connection's first packet had, Reply what the answer has: its Dst is the source after translation.
	Orig, Reply Tuple
}

// Tuple is one direction of an Entry. SPort and DPort are empty for protocols without ports, ID, Type and Code are ICMP's.
type Tuple struct {
	Src, Dst                     netip.Addr
	SPort, DPort, ID, Type, Code string
}

// Listed yields the entries of a list that ovs-vswitchd wrote (dpctl/dump-conntrack), without lines that it does not understand.
func Listed(list string) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for line := range strings.SplitSeq(list, "\n") {
			m := entry.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			e := Entry{Protocol: m[1], Orig: listedTuple(m[2]), Reply: listedTuple(m[3])}
			e.Zone, _ = strconv.Atoi(m[4]) // zone 0 is not written
			if e.Orig.Src.IsValid() && e.Orig.Dst.IsValid() && !yield(e) {
				return
			}
		}
	}
}

// entry is a line of dpctl/dump-conntrack.
var entry = regexp.MustCompile(`^(\w+),orig=\(([^)]*)\),reply=\(([^)]*)\)(?:,zone=(\d+))?`)

func listedTuple(text string) (t Tuple) {
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "src":
			t.Src, _ = netip.ParseAddr(value)
		case "dst":
			t.Dst, _ = netip.ParseAddr(value)
		case "sport":
			t.SPort = value
		case "dport":
			t.DPort = value
		case "id":
			t.ID = value
		case "type":
			t.Type = value
		case "code":
			t.Code = value
		}
	}
	return t
}

// Selected returns the entries of a list that are selected. ovs-vswitchd before version 3.1 removes them only one by one.
func Selected(list string, selected []Stale) (found []Entry) {
	for e := range Listed(list) {
		if e.Protocol == "udp" && slices.ContainsFunc(selected, func(s Stale) bool { return s.selects(e) }) {
			found = append(found, e)
		}
	}
	return found
}

func (s Stale) selects(e Entry) bool {
	same := func(want netip.AddrPort, have netip.Addr, port string) bool {
		return !want.IsValid() || strconv.Itoa(int(want.Port())) == port && (want.Addr().IsUnspecified() || want.Addr() == have)
	}
	return (s.Zone == 0 || s.Zone == e.Zone) && same(s.From, e.Orig.Src, e.Orig.SPort) && same(s.To, e.Orig.Dst, e.Orig.DPort) &&
		same(s.By, e.Reply.Src, e.Reply.SPort)
}

// Args returns the arguments of dpctl/flush-conntrack after the datapath's name that remove the entry alone, in any version.
func (e Entry) Args() []string {
	family := "ct_nw_"
	if e.Orig.Src.Is6() {
		family = "ct_ipv6_"
	}
	number, ok := protocolNumbers[e.Protocol]
	if !ok {
		number = e.Protocol
	}
	parts := []string{"ct_nw_proto=" + number, fmt.Sprint(family, "src=", e.Orig.Src), fmt.Sprint(family, "dst=", e.Orig.Dst)}
	for _, field := range [][2]string{{"ct_tp_src", e.Orig.SPort}, {"ct_tp_dst", e.Orig.DPort}, {"icmp_id", e.Orig.ID},
		{"icmp_type", e.Orig.Type}, {"icmp_code", e.Orig.Code}} {
		if field[1] != "" {
			parts = append(parts, field[0]+"="+field[1])
		}
	}
	return []string{fmt.Sprint("zone=", e.Zone), strings.Join(parts, ",")}
}

// protocolNumbers are the protocols that ovs-vswitchd names (lib/ct-dpif.c).
var protocolNumbers = map[string]string{
	"icmp": "1", "tcp": "6", "udp": "17", "dccp": "33", "icmpv6": "58", "sctp": "132", "udplite": "136",
}

// String names the entry in errors.
func (e Entry) String() string {
	return fmt.Sprintf("conntrack entry of %s from %s %s to %s %s", e.Protocol, e.Orig.Src, e.Orig.SPort, e.Orig.Dst, e.Orig.DPort)
}

// ZoneArgs returns the arguments of dpctl/dump-conntrack after the datapath's name for a list that has all selected entries.
func ZoneArgs(selected []Stale) []string {
	zone := selected[0].Zone
	if zone == 0 || slices.ContainsFunc(selected, func(s Stale) bool { return s.Zone != zone }) {
		return nil
	}
	return []string{fmt.Sprint("zone=", zone)}
}

// tuple returns one direction of UDP entries.
func tuple(from, to netip.AddrPort) string {
	parts := []string{"ct_nw_proto=17"} // UDP
	for _, end := range []struct {
		name string
		at   netip.AddrPort
	}{{"src", from}, {"dst", to}} {
		if !end.at.IsValid() {
			continue
		}
		if address := end.at.Addr(); !address.IsUnspecified() {
			family := "ct_nw_"
			if address.Is6() {
				family = "ct_ipv6_"
			}
			parts = append(parts, fmt.Sprint(family, end.name, "=", address))
		}
		parts = append(parts, fmt.Sprint("ct_tp_", end.name, "=", end.at.Port()))
	}
	return strings.Join(parts, ",")
}

// Backends are the endpoints of UDP destinations.
type Backends map[netip.AddrPort]map[netip.AddrPort]bool

// UDPBackends returns the endpoints of a service's UDP ports by destination, as seen from a node. The unspecified address stands
// for the nodes' own. ipam.NowhereOf is among the endpoints of a destination that needs one on the node and has none there.
func UDPBackends(service facts.Service, node string) Backends {
	found := Backends{}
	for _, port := range service.Ports {
		if port.Protocol != facts.UDP {
			continue
		}
		for _, vip := range port.VIPs {
			at, near := vip.AddrPort, false
			if found[at] == nil {
				found[at] = map[netip.AddrPort]bool{}
			}
			for _, b := range port.Backends {
				if b.Addr().Is4() != at.Addr().Is4() {
					continue
				}
				near = near || b.Node == node
				found[at][b.AddrPort] = true
			}
			if vip.From == facts.FromLocal && !near {
				found[at][ipam.NowhereOf(at.Addr())] = true
			}
		}
	}
	return found
}

// mostStale is how many former endpoints of a destination are selected one by one. Each selection reads all entries once.
const mostStale = 64

// StaleBackends selects the entries of destinations that have lost endpoints. ovn-controller ends them too (ct_flush), but just
// before it changes the flows, so that a client that sends meanwhile has its entry again.
func StaleBackends(former, present Backends) (stale []Stale) {
	for to, backends := range former {
		var gone []Stale
		for b := range backends {
			if !present[to][b] {
				gone = append(gone, Stale{To: to, By: b})
			}
		}
		if len(gone) > mostStale {
			gone = []Stale{{To: to}}
		}
		stale = append(stale, gone...)
	}
	return stale
}

// StaleWays selects the external bridge's entries of destinations that go elsewhere than before. An entry that began with the host's
// reply has the destination as its source. If the gateway router answers instead of the host, or the reverse, entries of the router
// end too: it may have seen only a part of the connection's packets, and would not translate the others.
func StaleWays(destinations []netip.AddrPort, former, present map[netip.AddrPort]UDPTarget) (stale []Stale) {
	for _, at := range destinations {
		stale = append(stale, Stale{Zone: zone, To: at}, Stale{Zone: zone, From: at})
		if former[at].Host != present[at].Host {
			stale = append(stale, Stale{To: at})
		}
	}
	return stale
}

// Targets returns where the host sends datagrams to the destinations of StaleWays. A destination that the host does not translate
// is its own target.
func Targets(stale []Stale, present map[netip.AddrPort]UDPTarget) map[netip.AddrPort]UDPTarget {
	targets := map[netip.AddrPort]UDPTarget{}
	for _, s := range stale {
		if s.Zone != zone || !s.To.IsValid() {
			continue
		}
		target, ok := present[s.To]
		if !ok {
			target.To = []netip.AddrPort{s.To}
		}
		targets[s.To] = target
	}
	return targets
}
