package trace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// Zones returns the tracer of a zone's databases; "" is the default zone. It is the Tracer of a cluster
// with zones. An UnknownError makes the verdict on each packet of that zone unknown.
type Zones func(ctx context.Context, zone networkv1alpha1.ZoneName) (Tracer, error)

// Run implements Tracer: it traces each packet in the databases of the packet's zone.
func (z Zones) Run(ctx context.Context, request Request) (Answer, error) {
	answer := Answer{Traces: make([]Traced, len(request.Packets))}
	in := map[networkv1alpha1.ZoneName][]int{}
	for i, p := range request.Packets {
		in[p.Zone] = append(in[p.Zone], i)
	}
	for _, zone := range slices.Sorted(maps.Keys(in)) {
		var packets []Packet
		for _, i := range in[zone] {
			packets = append(packets, request.Packets[i])
		}
		tracer, err := z(ctx, zone)
		if why, ok := errors.AsType[*UnknownError](err); ok {
			for _, i := range in[zone] {
				answer.Traces[i].Unknown = why.Reason
			}
			continue
		} else if err != nil {
			return answer, err
		}
		traces, err := tracesOf(ctx, tracer, packets)
		if err != nil {
			return answer, err
		}
		for at, i := range in[zone] {
			answer.Traces[i] = traces[at]
		}
	}
	return answer, nil
}

// tracesOf returns a trace for each packet. An UnknownError of the tracer becomes part of each trace.
func tracesOf(ctx context.Context, tracer Tracer, packets []Packet) ([]Traced, error) {
	answer, err := tracer.Run(ctx, Request{Packets: packets})
	if why, ok := errors.AsType[*UnknownError](err); ok {
		return slices.Repeat([]Traced{{Unknown: why.Reason}}, len(packets)), nil
	}
	if err == nil && len(answer.Traces) != len(packets) {
		err = fmt.Errorf("%d packets were traced of %d", len(answer.Traces), len(packets))
	}
	return answer.Traces, err
}

// path is what OVN does with a packet in all zones that the packet passes.
type path struct {
	// Trace has the steps of all zones, and the outputs of the last zone.
	Trace
	rows  map[string]Row
	texts []string
	// silent are the routers outside that do not answer BFD on the sender's node.
	silent []netip.Addr
	// last is the packet as it enters the last zone.
	last      Packet
	crossings []crossing
	// missing is a port of the packet that the last zone's databases lack.
	missing string
	// unknown says why the rest of the path is unknown.
	unknown string
}

// crossing is where a packet enters another zone: before the step with that number.
type crossing struct {
	step int
	node string
	zone networkv1alpha1.ZoneName
}

// mostZones bounds the zones of a path. A packet to a pod passes two zones.
const mostZones = 4

// add appends what OVN does with the packet p. onward is the packet as it enters a further zone, and more is false if there is no
// such zone.
func (w World) add(to *path, p Packet, traced Traced) (onward Packet, more bool, err error) {
	if to.last = p; traced.Unknown != "" {
		to.unknown = traced.Unknown
		return onward, false, nil
	}
	to.texts = append(to.texts, traced.Text)
	if len(traced.Missing) > 0 {
		to.missing = traced.Missing[0]
		return onward, false, nil
	}
	t, err := Parse(traced.Text)
	if err != nil {
		return onward, false, err
	}
	if to.rows == nil {
		to.rows = map[string]Row{}
	}
	maps.Copy(to.rows, traced.Rows)
	to.silent = append(to.silent, traced.Silent...)
	to.Steps = append(to.Steps, t.Steps...)
	to.Outputs, to.Refusal, to.Unresolved = t.Outputs, t.Refusal, to.Unresolved || t.Unresolved || traced.Unresolved
	at := slices.IndexFunc(t.Outputs, func(o Output) bool { return o.Type == names.RemotePort })
	if at < 0 {
		return onward, false, nil
	}
	node := strings.TrimPrefix(t.Outputs[at].Port, names.TransitSwitchPort(""))
	to.Outputs = slices.Delete(t.Outputs, at, at+1)
	onward, err = w.onward(p, t, node)
	if why, ok := errors.AsType[*UnknownError](err); ok {
		to.unknown = why.Reason
		return onward, false, nil
	}
	to.crossings = append(to.crossings, crossing{len(to.Steps), node, onward.Zone})
	if to.last = onward; len(to.crossings) >= mostZones {
		to.unknown = fmt.Sprintf("it has passed %d zones before, and the trace ends here", len(to.crossings))
		return onward, false, nil
	}
	return onward, true, nil
}

// onward returns a packet as it enters a node of another zone, after a trace in its own zone.
func (w World) onward(p Packet, t Trace, node string) (Packet, error) {
	n, err := w.node(node)
	if err != nil {
		return p, err
	}
	if n.Node.Zone == p.Zone {
		return p, unknown("its databases have node %s in another zone, so the node is about to change its zone", node)
	}
	next, err := p.after(t)
	next.Watches = ""
	next.Inport, next.From, next.To = names.TransitSwitchPort(p.Node), "", names.TransitSwitchPort(node)
	next.Node, next.Zone, next.Chassis, next.Hairpin = node, n.Node.Zone, n.Node.Chassis, false
	return next, err
}

// after returns the packet with the headers that it has at the end of a trace.
func (p Packet) after(t Trace) (Packet, error) {
	if p.TTL == 0 {
		p.TTL = firstTTL
	}
	for _, s := range t.Steps {
		for _, action := range s.Actions {
			p.apply(action)
		}
		if list := backendsOf(s); list != "" {
			backend, err := netip.ParseAddrPort(oneOf(list, p.Backend))
			if err != nil {
				return p, unknown("a load balancer of switch or router %s chooses among %s, so the packet's destination is not known",
					s.Datapath, list)
			}
			p.Destination, p.DestinationPort = backend.Addr(), backend.Port()
		}
		if a, err := netip.ParseAddr(s.Translated); err == nil && s.Source {
			p.Source = a
		} else if err == nil {
			p.Destination = a
		}
	}
	return p, nil
}

// apply changes the packet as an action does. Actions on other fields change nothing.
func (p *Packet) apply(action string) {
	if action == "ip.ttl--;" {
		p.TTL--
		return
	}
	if text, ok := strings.CutPrefix(action, "/* MAC binding to "); ok {
		action = "eth.dst = " + strings.TrimSuffix(text, ". */")
	}
	field, value, _ := strings.Cut(strings.TrimSuffix(action, ";"), " = ")
	switch field {
	case "eth.src", "eth.dst":
		if _, err := net.ParseMAC(value); err != nil {
			return
		}
		if field == "eth.src" {
			p.SourceMAC = value
		} else {
			p.DestinationMAC = value
		}
	case "ip4.src", "ip6.src", "ip4.dst", "ip6.dst":
		a, err := netip.ParseAddr(value)
		if err != nil {
			return
		}
		if strings.HasSuffix(field, "src") {
			p.Source = a
		} else {
			p.Destination = a
		}
	}
}

// where names the node and the zone at which a path becomes unknown.
func (p path) where() string {
	verb := "enters at"
	if len(p.crossings) > 0 {
		verb = "reaches"
	}
	return fmt.Sprintf("the packet %s %s", verb, nodeText(p.last.Node, p.last.Zone))
}

// nodeText names a node with its zone.
func nodeText(node string, zone networkv1alpha1.ZoneName) string {
	return "node " + node + " of " + ZoneText(zone)
}

// ZoneText names a zone for people.
func ZoneText(zone networkv1alpha1.ZoneName) string {
	if zone == "" {
		return "the default zone"
	}
	return "zone " + string(zone)
}

// inZone is the end of a phrase about a node. It is empty in the default zone.
func inZone(zone networkv1alpha1.ZoneName) string {
	if zone == "" {
		return ""
	}
	return " of " + ZoneText(zone)
}
