package ovnexpr

import (
	"net/netip"
	"strconv"
	"strings"
)

// Match is an expression over packets (ovn-sb(5), Logical_Flow.match). And and Or leave out the zero Match.
type Match struct {
	text  string
	loose byte // '&' or '|', the outermost operator; 0 without one
}

// String writes the expression.
func (m Match) String() string { return m.text }

// IsZero reports whether the match is empty.
func (m Match) IsZero() bool { return m.text == "" }

func atom(text string) Match { return Match{text: text} }

// And matches packets that match all of them.
func And(all ...Match) Match { return join('&', " && ", all) }

// Or matches packets that match at least one of them.
func Or(all ...Match) Match { return join('|', " || ", all) }

func join(operator byte, between string, all []Match) Match {
	var texts []string
	var last Match
	for _, m := range all {
		if m.text == "" {
			continue
		}
		text := m.text
		if m.loose != 0 && m.loose != operator { // OVN refuses && and || side by side
			text = "(" + text + ")"
		}
		texts, last = append(texts, text), m
	}
	if len(texts) <= 1 {
		return last
	}
	return Match{strings.Join(texts, between), operator}
}

// IP matches IPv4 and IPv6.
func IP() Match { return atom("ip") }

// Multicast matches packets to several receivers.
func Multicast() Match { return Or(atom("ip4.mcast"), atom("ip6.mcast")) }

// IGMP matches reports of receivers of IPv4 multicast, and queries of switches and routers.
func IGMP() Match { return atom("igmp") }

// FromGroup matches packets that a port of a port group sends.
func FromGroup(group string) Match { return atom("inport == @" + group) }

// ToPortOf matches packets that a port of a port group receives.
func ToPortOf(group string) Match { return atom("outport == @" + group) }

// Side is the source or the destination of a packet.
type Side string

// The sides.
const (
	Source      Side = "src"
	Destination Side = "dst"
)

// ToNetworks matches packets to an address in one of the networks. Without networks it is the zero Match.
func ToNetworks(networks ...netip.Prefix) Match { return Networks(Destination, networks...) }

// Networks matches packets with an address in one of the networks at the side. Without networks it is the zero Match.
func Networks(side Side, networks ...netip.Prefix) Match {
	var v4, v6 []string
	for _, n := range networks {
		text := n.String()
		if n.IsSingleIP() {
			text = n.Addr().String()
		}
		if n.Addr().Is4() {
			v4 = append(v4, text)
		} else {
			v6 = append(v6, text)
		}
	}
	return Or(oneOf("ip4."+string(side), v4), oneOf("ip6."+string(side), v6))
}

// ToSets matches packets to an address in a set of IPv4 addresses or in a set of IPv6 addresses.
func ToSets(v4, v6 string) Match { return Sets(Destination, v4, v6) }

// Sets matches packets whose address at the side is in a set of IPv4 addresses or in a set of IPv6 addresses.
func Sets(side Side, v4, v6 string) Match {
	return Or(atom("ip4."+string(side)+" == $"+v4), atom("ip6."+string(side)+" == $"+v6))
}

// SetOf matches packets whose address at the side is in a set. like is an address of the set's family.
func SetOf(side Side, set string, like netip.Addr) Match {
	return atom(family(like) + "." + string(side) + " == $" + set)
}

// OfPort makes a match of FromPort or ToPort a Match.
func OfPort(port string) Match { return atom(port) }

// Ports is a protocol ("tcp", "udp", "sctp") and a range of its ports. First 0 means all ports.
type Ports struct {
	Protocol    string
	First, Last uint16
}

// ToPorts matches packets to one of the ports. Without ports it is the zero Match.
func ToPorts(ports ...Ports) Match {
	var all []Match
	singles := map[string][]string{} // protocol -> ports
	var protocols []string
	for _, p := range ports {
		switch {
		case p.First == 0:
			all = append(all, atom(p.Protocol))
		case p.First < p.Last:
			all = append(all, atom(number(p.First)+" <= "+p.Protocol+".dst <= "+number(p.Last)))
		default:
			if singles[p.Protocol] == nil {
				protocols = append(protocols, p.Protocol)
			}
			singles[p.Protocol] = append(singles[p.Protocol], number(p.First))
		}
	}
	for _, protocol := range protocols {
		all = append(all, oneOf(protocol+".dst", singles[protocol]))
	}
	return Or(all...)
}

func number(n uint16) string { return strconv.Itoa(int(n)) }

func oneOf(field string, values []string) Match {
	switch len(values) {
	case 0:
		return Match{}
	case 1:
		return atom(field + " == " + values[0])
	}
	return atom(field + " == {" + strings.Join(values, ", ") + "}")
}
