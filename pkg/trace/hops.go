package trace

import (
	"fmt"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/topology"
)

// Hop is one thing that happens to a packet on its way.
type Hop struct {
	// Where is the switch or router.
	Where string `json:"where"`
	// What says it in words.
	What string `json:"what"`
	// By is the object whose row did it.
	By Object `json:"by,omitzero"`
	// Zone is the zone in whose databases the hop was traced. It is empty in the default zone.
	Zone networkv1alpha1.ZoneName `json:"zone,omitempty"`
}

// hopsOf returns the way of a packet, in as few hops as possible.
func hopsOf(leg Leg, t path) []Hop {
	h := hopper{rows: t.rows, leg: leg, zone: leg.Packet.Zone}
	if leg.Enters != "" {
		h.add("", "from "+leg.Enters, Object{})
	}
	crossings := t.crossings
	for i, s := range t.Steps {
		for len(crossings) > 0 && crossings[0].step == i {
			h.cross(crossings[0])
			crossings = crossings[1:]
		}
		h.step(s)
	}
	for _, c := range crossings { // into a zone whose databases cannot be read
		h.cross(c)
	}
	if t.Unresolved && slices.ContainsFunc(t.Outputs, func(o Output) bool { return o.Type == "localnet" }) {
		h.add("", "the MAC of the next hop is not known yet: OVN resolves it before it sends", Object{})
	}
	if t.Refusal != "" {
		h.add("", "refused with "+strings.ReplaceAll(t.Refusal, "_", " "), Object{})
	}
	for _, o := range t.Outputs {
		if leg.Lost != "" && slices.Contains(leg.Arrives, o.Port) {
			h.add("", "dropped by the node: "+leg.Lost, Object{})
		} else if len(leg.Arrives) == 0 || slices.Contains(leg.Arrives, o.Port) {
			h.add("", "delivered to "+portText(o), Object{})
		}
	}
	return h.hops
}

// hopper collects hops.
type hopper struct {
	rows map[string]Row
	leg  Leg
	hops []Hop
	last string // datapath
	node string // of the last datapath
	zone networkv1alpha1.ZoneName
}

func (h *hopper) add(where, what string, by Object) {
	hop := Hop{where, what, by, h.zone}
	if n := len(h.hops); n == 0 || h.hops[n-1] != hop {
		h.hops = append(h.hops, hop)
	}
}

func (h *hopper) step(s Step) {
	h.enter(s)
	row, owned := h.rows[s.Flow]
	o := objectOf(row)
	switch {
	case !owned:
		if s.Translated != "" && s.Source {
			h.add(s.Datapath, "source becomes "+s.Translated, Object{})
		}
	case row.Table == "Logical_Router_Policy" && s.Datapath == names.TransitRouter: // the cluster router has the same policy
	case row.Table == "ACL" && !followsOnly(row):
		verb := "passes it by"
		switch {
		case s.has(bitAllow):
			verb = "allows it by"
		case s.has(bitDrop), s.has(bitReject):
			verb = "denies it by"
		}
		h.add(s.Datapath, fmt.Sprintf("%s %s %s", o, verb, row.Rule), o)
	case row.Table == "Load_Balancer":
		if backends := backendsOf(s); backends != "" {
			h.add(s.Datapath, fmt.Sprintf("%s: %s", o, h.chosen(backends)), o)
		}
	case row.Table == "NAT" && s.Translated != "":
		h.add(s.Datapath, fmt.Sprintf("source becomes %s (%s)", s.Translated, o), o)
	case row.Table == "Logical_Router_Policy" && o.Kind == kinds[topology.KindEgressIP] && !s.has("drop;"):
		h.add(s.Datapath, fmt.Sprintf("%s sends it to the node that carries its address", o), o)
	case row.Table == "Logical_Router_Policy" && o.Kind == kinds[topology.KindGateway] && !s.has("drop;"):
		h.add(s.Datapath, "to the node itself, by its management port", o)
	case row.Table == "Logical_Router_Static_Route" && s.has("drop;"):
		h.add(s.Datapath, "discarded by a route", o)
	}
}

// between reports whether a step is on the way between nodes, or between zones. A node may have the name of the transit switch.
func between(s Step) bool {
	return slices.Contains([]string{names.JoinSwitch, names.ClusterRouter, names.TransitRouter}, s.Datapath) ||
		s.Datapath == names.TransitSwitch && strings.HasPrefix(s.Inport, names.TransitSwitchPort(""))
}

// cross adds a hop where the packet comes to a node of another zone.
func (h *hopper) cross(c crossing) {
	h.zone, h.node, h.last = c.zone, c.node, names.TransitSwitch
	h.add(names.TransitSwitch, "to "+nodeText(c.node, c.zone)+", through the tunnel between the nodes", Object{})
}

// enter adds a hop where the packet comes to another node's switch or gateway.
func (h *hopper) enter(s Step) {
	if s.Datapath == h.last || between(s) {
		return
	}
	first := h.last == ""
	h.last = s.Datapath
	node, what := s.Datapath, "switch of node "
	if name, ok := strings.CutPrefix(node, names.ExternalSwitch("")); ok {
		node, what = name, ""
	} else if name, ok := strings.CutPrefix(node, names.GatewayRouter("")); ok {
		node, what = name, "gateway of node "
	} else if name, ok := strings.CutPrefix(node, names.EgressRouter("")); ok {
		node, what = name, "gateway of node "
	}
	other := node != h.node
	if h.node = node; first || what == "" || what == "switch of node " && !other {
		return
	}
	if what += node; other {
		what += ", through the tunnel between the nodes"
	}
	h.add(s.Datapath, what, Object{})
}

// backendsOf returns the list of backends of a load balancer's flow.
func backendsOf(s Step) string {
	for _, action := range s.Actions {
		if _, rest, ok := strings.Cut(action, "backends="); ok {
			list, _, _ := strings.Cut(rest, ")")
			list, _, _ = strings.Cut(list, ";")
			return list
		}
	}
	return ""
}

// chosen says which backend was chosen.
func (h *hopper) chosen(list string) string {
	if one := oneOf(list, h.leg.Packet.Backend); one != "" {
		return "backend " + one
	}
	return "one of the backends " + strings.Join(backendList(list), ", ")
}

func backendList(list string) []string {
	return slices.Compact(slices.Sorted(strings.SplitSeq(list, ",")))
}

// oneOf returns the backend that is chosen from a list: wanted if the list has it, or the only backend. It is empty if neither applies.
func oneOf(list, wanted string) string {
	all := backendList(list)
	switch {
	case slices.Contains(all, wanted):
		return wanted
	case len(all) == 1:
		return all[0]
	}
	return ""
}

// portText names a port for people.
func portText(o Output) string {
	if namespace, pod, ok := names.ParsePodPort(o.Port); ok && o.Type == "" {
		return "pod " + namespace + "/" + pod
	}
	if node, ok := strings.CutPrefix(o.Port, names.ManagementPort("")); ok {
		return "the host " + node + ", by " + names.ManagementInterface
	}
	if node, ok := strings.CutPrefix(o.Port, names.EgressPort("")); ok && o.Type == "" {
		return "the host " + node + ", by " + names.EgressInterface
	}
	if o.Type == "localnet" {
		return "the network outside, by bridge and node " + o.Port
	}
	return "port " + o.Port
}
