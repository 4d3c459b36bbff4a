package trace

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/names"
)

// Reply returns the leg of the answer to a packet that has arrived. ok is false for packets that have not.
func (w World) Reply(leg Leg, t Trace) (reply Leg, ok bool) {
	at := slices.IndexFunc(t.Outputs, func(o Output) bool { return slices.Contains(leg.Arrives, o.Port) })
	if at < 0 {
		return Leg{}, false
	}
	p, o := leg.Packet, t.Outputs[at]
	back := Packet{Inport: o.Port, From: o.Port, Protocol: p.Protocol, Source: p.Destination, SourcePort: p.DestinationPort,
		Destination: p.Source, DestinationPort: p.SourcePort, Reply: true, Hairpin: p.Hairpin}
	if backend, err := netip.ParseAddrPort(p.Backend); err == nil && translates(t) {
		back.Source, back.SourcePort = backend.Addr(), backend.Port()
	}
	if source, _ := t.Seen(); source != "" {
		if a, err := netip.ParseAddr(source); err == nil && a != p.Source {
			back.Destination, back.Restore = a, p.Source
		}
	}
	node := nodeOf(o, t)
	n := w[node]
	back.Node, back.Zone, back.Chassis, back.To = node, n.Node.Zone, n.Node.Chassis, names.RouterToSwitch(node)
	if o.Type == "localnet" {
		back.From, back.To = "", names.RouterToExternal(names.GatewayRouter(node))
	} else if o.Port == names.EgressPort(node) {
		back.To = names.RouterToExternal(names.EgressRouter(node))
	} else if slices.ContainsFunc(n.Node.Subnets, func(s netip.Prefix) bool { return s.Contains(back.Destination) }) {
		back.To = p.Inport
	}
	return Leg{Packet: back, Arrives: []string{p.Inport}}, true
}

// translates reports whether a load balancer has chosen a backend.
func translates(t Trace) bool {
	return slices.ContainsFunc(t.Steps, func(s Step) bool { return backendsOf(s) != "" })
}

// nodeOf returns the node at which a packet leaves OVN.
func nodeOf(o Output, t Trace) string {
	last := t.Steps[len(t.Steps)-1].Datapath
	if o.Type == "localnet" || strings.HasPrefix(last, names.ExternalSwitch("")) {
		return strings.TrimPrefix(last, names.ExternalSwitch(""))
	}
	return last
}
