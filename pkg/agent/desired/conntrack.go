package desired

import (
	"fmt"
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

// Entries returns the selected entries of a list that ovs-vswitchd wrote (dpctl/dump-conntrack), each as the Stale that selects it
// alone: with a zone, a source and a destination. ovs-vswitchd before version 3.1 can remove no others.
func Entries(list string, selected []Stale) (found []Stale) {
	for line := range strings.SplitSeq(list, "\n") {
		m := entry.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		zone, _ := strconv.Atoi(m[7]) // zone 0 is not written
		e := Stale{zone, end(m[1], m[3]), end(m[2], m[4]), end(m[5], m[6])}
		if slices.ContainsFunc(selected, func(s Stale) bool { return s.selects(e) }) {
			e.By = netip.AddrPort{}
			found = append(found, e)
		}
	}
	return found
}

// entry is a line of dpctl/dump-conntrack for UDP.
var entry = regexp.MustCompile(`^udp,orig=\(src=([^,]+),dst=([^,]+),sport=(\d+),dport=(\d+)\),` +
	`reply=\(src=([^,]+),dst=[^,]+,sport=(\d+),dport=\d+\)(?:,zone=(\d+))?`)

// end returns one end of an entry. It is invalid if a text is unreadable.
func end(address, port string) netip.AddrPort {
	at, err := netip.ParseAddr(address)
	number, err2 := strconv.ParseUint(port, 10, 16)
	if err != nil || err2 != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(at, uint16(number))
}

func (s Stale) selects(e Stale) bool {
	same := func(want, have netip.AddrPort) bool {
		return !want.IsValid() || want.Port() == have.Port() && (want.Addr().IsUnspecified() || want.Addr() == have.Addr())
	}
	return (s.Zone == 0 || s.Zone == e.Zone) && same(s.From, e.From) && same(s.To, e.To) && same(s.By, e.By)
}

// WholeArgs is Args for one of Entries.
func (s Stale) WholeArgs() []string {
	return []string{fmt.Sprint("zone=", s.Zone), tuple(s.From, s.To)}
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
