package desired

import (
	"fmt"
	"net/netip"
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
