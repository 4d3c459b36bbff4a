package tracer

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/trace"
)

// literals decides which flows a trace needs. A flow that requires a field to be an address or a port cannot match before the
// packet has it in some field, and whatever a packet gets is in the text of its trace. So flows that require anything else
// are left out, and the trace is repeated if its text has something that such a flow requires.
type literals struct {
	addresses map[netip.Addr]bool // that the packet may have
	ports     map[string]bool
}

// leftOut is what the flows that were left out require.
type leftOut struct {
	prefixes map[netip.Prefix]bool
	ports    map[string]bool
}

func newLeftOut() *leftOut { return &leftOut{map[netip.Prefix]bool{}, map[string]bool{}} }

// literalsOf returns what a packet can have without any flow, and the ports between the switches and routers of its nodes.
func literalsOf(packets []trace.Packet, nodes []string) literals {
	const none = "none" // where get_fdb() finds no port
	l := literals{addresses: map[netip.Addr]bool{}, ports: map[string]bool{none: true,
		names.RouterToJoin(names.ClusterRouter): true, names.JoinToRouter(names.ClusterRouter): true}}
	for _, p := range packets {
		for _, port := range []string{p.Inport, p.From, p.To} {
			l.ports[port] = true
		}
		for _, a := range append(addressesIn(p.Backend), p.Source, p.Destination, p.Restore) {
			l.addresses[a] = true
		}
	}
	for _, node := range nodes {
		ports := []string{names.RouterToTransit, names.TransitToRouter, names.TransitSwitchPort(node), names.RouterToTransitSwitch(node),
			names.RouterToSwitch(node), names.SwitchToRouter(node), names.ManagementPort(node), names.EgressPort(node)}
		for _, router := range []string{names.GatewayRouter(node), names.EgressRouter(node)} {
			ports = append(ports, names.RouterToJoin(router), names.JoinToRouter(router), names.RouterToExternal(router),
				names.ExternalToRouter(router))
		}
		for _, port := range ports {
			l.ports[port] = true
		}
	}
	return l
}

// add reports whether a trace of a packet with these literals can do without a flow, and adds what the flow requires.
func (o *leftOut) add(l literals, match string) bool {
	if strings.Contains(match, "||") || strings.Contains(match, "!(") {
		return false
	}
	for term := range strings.SplitSeq(match, "&&") {
		field, value, ok := strings.Cut(strings.Trim(term, " ()"), " == ")
		if !ok || strings.HasPrefix(field, "!") {
			continue
		}
		if field == "inport" || field == "outport" {
			if port, ok := unquoted(value); ok && !l.ports[port] {
				o.ports[port] = true
				return true
			}
		} else if prefix, ok := prefixOf(strings.Trim(value, "{}")); ok && !l.hasIn(prefix) {
			o.prefixes[prefix] = true
			return true
		}
	}
	return false
}

func (l literals) hasIn(p netip.Prefix) bool {
	if p.IsSingleIP() {
		return l.addresses[p.Addr()]
	}
	for a := range l.addresses {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// unquoted returns a port's name. ok is false for a group of ports.
func unquoted(value string) (port string, ok bool) {
	port, ok = strings.CutPrefix(value, `"`)
	return strings.TrimSuffix(port, `"`), ok
}

// prefixOf reads an address or a prefix.
func prefixOf(value string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(value); err == nil {
		return p.Masked(), true
	}
	a, err := netip.ParseAddr(value)
	return netip.PrefixFrom(a, a.BitLen()), err == nil
}

// learn adds what a trace's text has and flows that were left out require. more is false if there is nothing.
func (l literals) learn(left *leftOut, text string) (more bool) {
	for _, port := range quoted.FindAllStringSubmatch(text, -1) {
		if left.ports[port[1]] {
			l.ports[port[1]], more = true, true
		}
	}
	var gets []netip.Addr
	for _, a := range addressesIn(arpSource.ReplaceAllString(text, "")) {
		if !l.addresses[a] && !slices.Contains(gets, a) {
			gets = append(gets, a)
		}
	}
	for p := range left.prefixes {
		for _, a := range gets {
			if p.Contains(a) {
				l.addresses[a], more = true, true
			}
		}
	}
	return more
}

var (
	// arpSource sets the sender of a router's own ARP and ND, which the packet itself never gets (REG_SRC_IPV4 and REG_SRC_IPV6
	// of northd).
	arpSource = regexp.MustCompile(`\b(reg5|xxreg1) = [0-9a-f:.]+;`)
	quoted    = regexp.MustCompile(`"([^"]+)"`)
	// word is a text that may be an address, with a port or without.
	word = regexp.MustCompile(`[0-9A-Fa-f:.]{2,}`)
)

// addressesIn returns the addresses in a text.
func addressesIn(text string) (found []netip.Addr) {
	for _, w := range word.FindAllString(text, -1) {
		if a, err := netip.ParseAddr(w); err == nil {
			found = append(found, a)
		} else if p, err := netip.ParseAddrPort(w); err == nil {
			found = append(found, p.Addr())
		}
	}
	return found
}
