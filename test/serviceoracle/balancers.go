package serviceoracle

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// destination is what a client connects to.
type destination struct {
	netip.AddrPort
	proto string // "tcp", "udp" or "sctp"
}

func (d destination) String() string { return d.proto + " " + d.AddrPort.String() }

// balanced is what OVN's load balancers do with a destination.
type balanced struct {
	backends []netip.AddrPort
	affinity int
	name     string
}

// fabric is what OVN's rows do on a node: the load balancers of its switch and of its gateway router, and the cluster IPs that refuse
// or drop what no balancer takes.
type fabric struct {
	atSwitch, atRouter map[destination][]balanced
	refused            map[string]bool
	dropped            map[destination]bool
}

var inMatch = regexp.MustCompile(`(tcp|udp|sctp)\.dst == (\{[^}]*\}|\d+)`)

// newFabric reads the rows of a rendering.
func newFabric(r rendering) fabric {
	f := fabric{map[destination][]balanced{}, map[destination][]balanced{}, map[string]bool{}, map[destination]bool{}}
	variables := map[string]string{}
	for name, value := range r.variables {
		variables[name] = value
	}
	group := func(name string) unit.Ref {
		return unit.Ref{Table: nbdb.LoadBalancerGroupTable, UUID: unit.UUID(nbdb.LoadBalancerGroupTable, name)}
	}
	anywhere := []unit.Ref{group(names.ClusterLoadBalancers), group(names.NodeLoadBalancers(ownNode))}
	own := unit.Ref{Table: nbdb.ChassisTemplateVarTable, UUID: unit.UUID(nbdb.ChassisTemplateVarTable, ownChassis)}
	atSwitch := append(slices.Clone(anywhere), group(names.SwitchLoadBalancers),
		unit.Ref{Table: nbdb.LogicalSwitchTable, UUID: unit.UUID(nbdb.LogicalSwitchTable, names.NodeSwitch(ownNode))})
	atRouter := append(slices.Clone(anywhere), group(names.RouterLoadBalancers),
		unit.Ref{Table: nbdb.LogicalRouterTable, UUID: unit.UUID(nbdb.LogicalRouterTable, names.GatewayRouter(ownNode))})
	parents := map[string][]unit.Ref{} // by the element's UUID
	for _, u := range r.units {
		for _, m := range u.Members {
			switch {
			case m.Parent == own:
				variables[m.Element] = m.Value
			case m.Column == "load_balancer":
				parents[m.Element] = append(parents[m.Element], m.Parent)
			case m.Column == "addresses":
				f.refused[m.Element] = true
			}
		}
	}
	for _, u := range r.units {
		for _, row := range u.Rows {
			switch model := row.Model.(type) {
			case *nbdb.ACL:
				f.drop(model.Match)
			case *nbdb.LoadBalancer:
				for _, parent := range parents[model.UUID] {
					if slices.Contains(atSwitch, parent) {
						add(f.atSwitch, model, variables)
					}
					if slices.Contains(atRouter, parent) {
						add(f.atRouter, model, variables)
					}
				}
			}
		}
	}
	return f
}

// drop adds the destinations of an ACL: "ip4.dst == 10.96.0.10 && (tcp.dst == {80, 443} || sctp.dst == 90)".
func (f fabric) drop(match string) {
	_, rest, _ := strings.Cut(match, ".dst == ")
	text, ports, _ := strings.Cut(rest, " && ")
	address := netip.MustParseAddr(text)
	for _, found := range inMatch.FindAllStringSubmatch(ports, -1) {
		for port := range strings.SplitSeq(strings.Trim(found[2], "{}"), ", ") {
			number, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				panic(fmt.Sprintf("the ACL's match %q is unknown", match))
			}
			f.dropped[destination{netip.AddrPortFrom(address, uint16(number)), found[1]}] = true
		}
	}
}

func add(to map[destination][]balanced, lb *nbdb.LoadBalancer, variables map[string]string) {
	replace := func(text string) (string, bool) {
		for strings.Contains(text, "^") {
			_, name, _ := strings.Cut(text, "^")
			if end := strings.IndexAny(name, ":,"); end >= 0 {
				name = name[:end]
			}
			value, ok := variables[name]
			if !ok {
				return "", false
			}
			if address, err := netip.ParseAddr(value); err == nil && address.Is6() {
				value = "[" + value + "]"
			}
			text = strings.Replace(text, "^"+name, value, 1)
		}
		return text, true
	}
	affinity, _ := strconv.Atoi(lb.Options["affinity_timeout"])
	for vip, backends := range lb.Vips {
		key, ok := replace(vip)
		list, ok2 := replace(backends)
		if !ok || !ok2 { // OVN leaves a VIP out on a chassis without the variable
			continue
		}
		b := balanced{affinity: affinity, name: lb.Name}
		for text := range strings.SplitSeq(list, ",") {
			if text != "" {
				b.backends = append(b.backends, netip.MustParseAddrPort(text))
			}
		}
		at := destination{netip.MustParseAddrPort(key), *lb.Protocol}
		if at.Addr().IsUnspecified() && strings.Contains(vip, "^") { // a node without an address of the family
			continue
		}
		to[at] = append(to[at], b)
	}
}

// lookup returns what balancers do with a destination. lost reports whether a backend does not answer this client.
func lookup(in map[destination][]balanced, to destination, lost func(netip.Addr) bool) (a answer, ok bool) {
	found := in[to]
	if len(found) == 0 {
		return answer{}, false
	}
	a = answer{Verdict: reject}
	nowhere := ipam.Nowhere()
	for _, b := range found {
		for _, backend := range b.backends {
			if slices.Contains(nowhere, backend.Addr()) {
				a.Verdict = drop
				continue
			}
			text := backend.String()
			if lost != nil && lost(backend.Addr()) {
				text = "lost:" + text
			}
			a.Verdict, a.Backends, a.Affinity = serve, append(a.Backends, text), b.affinity
		}
	}
	return a.tidy(), true
}

// fromSwitch returns what a packet gets that enters OVN at the node's switch.
func (f fabric) fromSwitch(to destination, lost func(netip.Addr) bool) answer {
	if a, ok := lookup(f.atSwitch, to, lost); ok {
		return a
	}
	switch {
	case f.dropped[to]:
		return answer{Verdict: drop}
	case f.refused[to.Addr().String()]:
		return answer{Verdict: reject}
	}
	return answer{Verdict: none}
}
