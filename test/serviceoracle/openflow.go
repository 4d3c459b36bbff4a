package serviceoracle

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// bridge evaluates the flows of the external bridge for the first packet of a connection from outside.
type bridge struct{ tables map[int][]flow }

type flow struct {
	priority int
	fields   []string
	actions  string
}

func newBridge(flows []desired.Flow) bridge {
	b := bridge{map[int][]flow{}}
	for _, f := range flows {
		var fields []string
		if f.Match != "" {
			fields = strings.Split(f.Match, ",")
		}
		b.tables[f.Table] = append(b.tables[f.Table], flow{f.Priority, fields, f.Actions})
	}
	for _, table := range b.tables {
		slices.SortStableFunc(table, func(a, b flow) int { return cmp.Compare(b.priority, a.priority) })
	}
	return b
}

// protocols are the numbers of protocols.
var protocols = map[string]string{"tcp": "6", "udp": "17", "sctp": "132"}

// receiver returns who gets a packet from outside: "LOCAL" is the host, "" nobody, and "output:2" the gateway router.
func (b bridge) receiver(p packet) string {
	actions := b.run(0, physical, p)
	if strings.HasPrefix(actions, "ct(table=1,") {
		actions = b.run(1, physical, p)
	}
	switch {
	case actions == "drop":
		return ""
	case strings.HasSuffix(actions, "output:"+strconv.Itoa(patch)):
		return "router"
	}
	return "host"
}

// lets reports whether a packet of the gateway router leaves.
func (b bridge) lets(p packet) bool { return b.run(0, patch, p) != "drop" }

func (b bridge) run(table, port int, p packet) (actions string) {
	for _, f := range b.tables[table] {
		if !slices.ContainsFunc(f.fields, func(field string) bool { return !inField(field, port, p) }) {
			return f.actions
		}
	}
	return "drop"
}

// inField reports whether a packet from a port has a field of a match.
func inField(field string, port int, p packet) bool {
	name, value, _ := strings.Cut(field, "=")
	switch name {
	case "in_port":
		return value == strconv.Itoa(port)
	case "dl_dst": // from outside the bridge's, else a router's
		return value == bridgeMAC && port == physical
	case "dl_src":
		return value == bridgeMAC && port == patch
	case "ip":
		return p.dst.Is4()
	case "ipv6":
		return p.dst.Is6()
	case "tcp", "udp", "sctp":
		return p.dst.Is4() && p.proto == name
	case "tcp6", "udp6", "sctp6":
		return p.dst.Is6() && p.proto+"6" == name
	case "nw_dst", "ipv6_dst", "ct_nw_dst", "ct_ipv6_dst":
		return within(value, p.dst)
	case "nw_src", "ipv6_src", "ct_nw_src", "ct_ipv6_src":
		return within(value, p.src)
	case "tp_dst", "ct_tp_dst":
		return value == strconv.Itoa(int(p.port))
	case "ct_nw_proto":
		return value == protocols[p.proto]
	case "ct_state":
		return value == "+new+trk"
	case "ct_mark", "arp", "icmp", "icmp6":
		return false
	}
	panic("OpenFlow: the field " + field + " is unknown")
}

func within(text string, address netip.Addr) bool {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Contains(address)
	}
	return netip.MustParseAddr(text) == address
}
