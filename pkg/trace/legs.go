package trace

import (
	"fmt"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// Question is one question: may this packet pass, and by which way.
type Question struct {
	From, To End
	Protocol Protocol
	// Port is the destination port, of a service the service's own. It is 0 for ICMP.
	Port uint16
	// Entry is the node by which clients outside enter, if the destination does not say it.
	Entry string
	// Backend is the endpoint to be chosen. It is invalid for destinations without load balancer.
	Backend netip.AddrPort
	// V6 selects IPv6.
	V6 bool
}

// sourcePort is the client's port of all questions.
const sourcePort = 33333

// World are the nodes, by name.
type World map[string]facts.Gateway

// Leg is a part of a packet's path that OVN carries. A packet has two legs if it leaves the cluster's network on one node
// and enters it again on another.
type Leg struct {
	Packet Packet
	// Arrives are the ports at which the leg has succeeded.
	Arrives []string
	// Enters says how the packet enters, for people.
	Enters string
	// Lost says why the node drops the packet where it arrives. It is empty for packets that the node passes on.
	Lost string
}

// UnknownError says why OVN's flows cannot answer a question.
type UnknownError struct{ Reason string }

func (e *UnknownError) Error() string { return e.Reason }

func unknown(format string, args ...any) error {
	return &UnknownError{fmt.Sprintf(format, args...)}
}

// route holds a question with what is known about its way.
type route struct {
	Question
	World
	destination netip.Addr
	port        uint16
}

// Legs returns the packets that answer a question. An UnknownError means that the packet does not pass OVN, or that
// an object lacks what the answer depends on.
func (w World) Legs(q Question) ([]Leg, error) {
	q = q.translated(w).chosenByHost(w)
	r := route{Question: q, World: w, destination: q.To.of(q.V6), port: q.Port}
	if !r.destination.IsValid() {
		return nil, unknown("%s has no %s address", q.To.Text(""), familyText(q.V6))
	}
	switch q.From.Kind {
	case Pod, Node:
		return r.fromInside()
	}
	return r.fromOutside()
}

func familyText(v6 bool) string { return map[bool]string{false: "IPv4", true: "IPv6"}[v6] }

// node returns a node that has subnets.
func (w World) node(name string) (facts.Gateway, error) {
	n, ok := w[name]
	switch {
	case name == "":
		return n, unknown("the pod is not scheduled to a node")
	case !ok:
		return n, unknown("node %s has no complete NodeNetwork", name)
	case n.Node.Chassis == "":
		return n, unknown("node %s has no chassis: its agent has not reported yet", name)
	}
	return n, nil
}

// fromInside returns the legs of a packet from a pod, or from a node.
func (r route) fromInside() ([]Leg, error) {
	n, err := r.node(r.From.Node)
	if err != nil {
		return nil, err
	}
	onHost := r.From.Kind == Node || r.From.OnHost
	source := r.From.of(r.V6)
	if onHost {
		if source = addressOf(facts.ManagementAddresses(n.Node.Subnets), r.V6); r.To.Kind == Outside || r.To.onAnyHost() {
			return nil, unknown("packets from node %s to %s do not pass OVN: the host sends them by its own routes", n.Node.Name, r.To.Text(""))
		}
	}
	if !source.IsValid() {
		return nil, unknown("%s has no %s address", r.From.Text(""), familyText(r.V6))
	}
	first := Leg{Enters: r.From.Text(""), Packet: Packet{Node: n.Node.Name, Zone: n.Node.Zone,
		Chassis: n.Node.Chassis, Inport: r.From.port(), From: r.From.port(), To: r.nextHop(n), Protocol: r.Protocol,
		Source: source, Destination: r.destination, SourcePort: sourcePort, DestinationPort: r.port}}
	if r.Protocol == ICMP {
		first.Packet.SourcePort, first.Packet.DestinationPort = 0, 0
	}
	if n.HasRouter() && slices.ContainsFunc(r.From.Routers, func(hop Router) bool { return hop.BFD }) {
		first.Packet.Watches = names.RouterToExternal(names.GatewayRouter(n.Node.Name))
	}
	if r.Backend.IsValid() {
		first.Packet.Backend = r.Backend.String()
		first.Packet.Hairpin = slices.Contains(r.From.Addresses, r.Backend.Addr())
	}
	if r.From.Kind == Pod {
		first.Enters += " on node " + n.Node.Name
	}
	first.Enters += inZone(n.Node.Zone)
	return r.onward(n, first)
}

// inItself reports whether a pod sends to its own address. The pod's kernel delivers such packets.
func (q Question) inItself() bool {
	return q.From.Kind == Pod && !q.From.OnHost && q.To.Balanced == nil && slices.Contains(q.From.Addresses, q.To.of(q.V6))
}

// byNode returns the verdict on a packet from outside on which a node decides before OVN gets it. ok is false for all other packets.
// Where only OVN uses the node's link, its gateway router decides about ports that the service lacks.
func (w World) byNode(q Question) (v Verdict, ok bool) {
	b, n, to := q.To.Balanced, w[q.Entry], q.To.of(q.V6)
	if q.From.Kind != Outside || !to.IsValid() {
		return v, false
	}
	if q.To.Kind == Unused {
		return Verdict{Result: Dropped, Why: unusedText(to)}, true
	}
	if b == nil || q.To.Kind != Service || !n.HasRouter() && n.Mode != networkv1alpha1.GatewayLocal {
		return v, false
	}
	v.Result, v.By = Dropped, q.To.object()
	vip, met := b.met(q, q.Port)
	switch {
	case slices.Contains(b.ClusterIPs, to):
		v.Why = fmt.Sprintf("%s serves pods and nodes at its cluster IP %s; clients outside need a node port, an external IP or "+
			"the address of a load balancer", v.By, to)
		return v, n.Mode != networkv1alpha1.GatewayLocal
	case !met:
		v.Why = q.noPort()
		return v, !n.Alone
	}
	allowed, from := b.SourcesAt(vip), q.From.of(q.V6)
	v.Why = fmt.Sprintf("%s has spec.loadBalancerSourceRanges, which do not contain %s", v.By, from)
	return v, allowed != nil && !slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(from) })
}

// chosenByHost replaces a service by the endpoint if the host of the sender chooses it by nftables, because it or its link has it.
func (q Question) chosenByHost(w World) Question {
	b, n := q.To.Balanced, w[q.From.Node]
	if b == nil || !q.Backend.IsValid() || q.To.Kind != Service || q.From.Kind != Node && !q.From.OnHost {
		return q
	}
	address := q.Backend.Addr()
	e := b.Pods[address]
	host, onHost := w.hostOf(address)
	beyond := !onHost && e.Pod == "" && e.Node == "" && n.Mode == networkv1alpha1.GatewayLocal
	if !slices.Contains(b.OnHost, n.Node.Name) && !beyond {
		return q
	}
	switch {
	case onHost:
		q.To = NodeEnd(host, w)
	case e.Pod != "":
		q.To = End{Kind: Pod, Namespace: e.Namespace, Name: e.Pod, Node: e.Node}
	default:
		q.To = End{Kind: Outside}
	}
	q.To.Addresses, q.Port, q.Backend = []netip.Addr{address}, q.Backend.Port(), netip.AddrPort{}
	return q
}

// onAnyHost reports whether the destination is the network of a host.
func (e End) onAnyHost() bool {
	return e.Kind == Node && e.Balanced == nil || e.Kind == Pod && e.OnHost
}

// nextHop returns the port whose MAC a packet from a node's switch has: the destination itself in the same subnet.
func (r route) nextHop(n facts.Gateway) string {
	if contains(n.Node.Subnets, r.destination) && (r.To.Kind == Pod || r.To.Kind == Node) {
		return r.To.port()
	}
	return names.RouterToSwitch(n.Node.Name)
}

// onward completes the first leg with where it arrives, and adds the leg on another node's side.
func (r route) onward(n facts.Gateway, first Leg) ([]Leg, error) {
	switch {
	case r.To.Kind == Pod && !r.To.OnHost:
		first.Arrives = []string{r.To.port()}
		return []Leg{first}, nil
	case r.To.Kind == Outside:
		first.Arrives = r.ways(n)
		return []Leg{first}, nil
	case r.To.Kind == Unused:
		first.Arrives = append(r.ways(n), names.ManagementPort(n.Node.Name))
		first.Lost = unusedText(r.destination)
		return []Leg{first}, nil
	case r.To.onAnyHost() && r.To.Node == n.Node.Name:
		first.Arrives = []string{names.ManagementPort(n.Node.Name)}
		return []Leg{first}, nil
	case r.To.onAnyHost():
		first.Arrives = r.ways(n)
		return []Leg{first}, nil
	}
	first.Arrives = r.backendPorts(n)
	entered := r
	switch {
	case r.To.Kind != Node || r.To.Node == n.Node.Name && r.byOVN(n):
		return []Leg{first}, nil
	case r.To.Node == n.Node.Name: // the host leads it back
		first.Arrives, entered.From = []string{names.ManagementPort(n.Node.Name)}, End{Kind: Outside, Addresses: r.From.Addresses}
	default: // a node port of another node: the packet leaves this node as any packet to that node
		first.Arrives, entered.From = r.ways(n), End{Kind: Outside, Addresses: r.hidden(n)}
	}
	first.Packet.Backend, first.Packet.Hairpin = "", false
	rest, err := entered.fromOutside()
	if err != nil {
		return nil, err
	}
	return append([]Leg{first}, rest...), nil
}

// hidden returns the addresses that another node sees of a pod.
func (r route) hidden(n facts.Gateway) []netip.Addr {
	if !n.SNAT {
		return r.From.Addresses
	}
	var all []netip.Addr
	for _, a := range n.Addresses {
		all = append(all, a.Addr())
	}
	return all
}

// ways are the ports by which a packet of a node leaves the cluster: its own port, and the ports of the other gateway
// routers, which carry egress IPs.
func (r route) ways(n facts.Gateway) []string {
	var all []string
	if n.Mode == networkv1alpha1.GatewayLocal {
		all = append(all, names.ManagementPort(n.Node.Name))
	}
	for _, g := range r.World {
		switch {
		case g.HasRouter():
			all = append(all, names.Localnet(g.Bridge, g.Node.Name))
		case g.HasEgressRouter():
			all = append(all, names.EgressPort(g.Node.Name))
		}
	}
	slices.Sort(all)
	return all
}

// unusedText says that an address of the service networks is nobody's.
func unusedText(address netip.Addr) string {
	return fmt.Sprintf("no Service has the cluster IP %s", address)
}

// backendPorts are the ports of the backend: its pod's, its host's, or else the ways out.
func (r route) backendPorts(n facts.Gateway) []string {
	if !r.Backend.IsValid() {
		return nil
	}
	host, onHost := r.World.hostOf(r.Backend.Addr())
	if e := r.To.Balanced.Pods[r.Backend.Addr()]; e.Pod != "" && !onHost {
		return []string{names.PodPort(names.DefaultNetwork, e.Namespace, e.Pod)}
	}
	ports := append(r.ways(n), names.ManagementPort(n.Node.Name))
	if onHost && host != n.Node.Name {
		ports = append(ports, names.ManagementPort(host))
	}
	return ports
}

// fromOutside returns the legs of a packet that enters by a node's link.
func (r route) fromOutside() ([]Leg, error) {
	entry := r.Entry
	if r.To.Kind != Service {
		entry = r.To.Node
	}
	n, err := r.node(entry)
	switch {
	case err != nil:
		return nil, err
	case r.To.onAnyHost():
		return nil, unknown("packets from outside to node %s do not pass OVN: the host itself answers", n.Node.Name)
	case r.To.Kind == Outside:
		return nil, unknown("neither end is in the cluster")
	case r.To.Kind == Node && r.unserved(n):
		return nil, unknown("node %s serves no node ports and host ports at %s: see spec.gateway.nodePortAddresses of the ClusterNetwork",
			n.Node.Name, r.destination)
	case r.To.Balanced != nil && slices.Contains(r.To.Balanced.OnHost, n.Node.Name):
		return nil, unknown("node %s has an endpoint of the service at its own address: there the host chooses the endpoint "+
			"by nftables", n.Node.Name)
	}
	source := r.From.of(r.V6)
	if !source.IsValid() {
		return nil, unknown("%s has no %s address", r.From.Text(""), familyText(r.V6))
	}
	leg := Leg{Packet: Packet{Node: n.Node.Name, Zone: n.Node.Zone, Chassis: n.Node.Chassis, Protocol: r.Protocol, Source: source,
		Destination: r.destination, SourcePort: sourcePort, DestinationPort: r.port},
		Enters: fmt.Sprintf("%s by node %s", source, n.Node.Name) + inZone(n.Node.Zone)}
	if r.Protocol == ICMP {
		leg.Packet.SourcePort, leg.Packet.DestinationPort = 0, 0
	}
	if r.Backend.IsValid() {
		leg.Packet.Backend = r.Backend.String()
	}
	if leg.Arrives = []string{r.To.port()}; r.To.Balanced != nil {
		leg.Arrives = r.backendPorts(n)
	}
	if err := r.enter(n, &leg); err != nil {
		return nil, err
	}
	return []Leg{leg}, nil
}

// enter sets the port by which a packet from outside enters: the gateway router's link, or the host's port where the host translates
// first.
func (r route) enter(n facts.Gateway, leg *Leg) error {
	switch {
	case n.HasRouter() && !r.byHost(n):
		p := &leg.Packet
		p.Inport, p.To = names.Localnet(n.Bridge, n.Node.Name), names.RouterToExternal(names.GatewayRouter(n.Node.Name))
		return nil
	case !n.HasRouter() && n.Mode != networkv1alpha1.GatewayLocal:
		return unknown("node %s has no link to the outside: see GatewayReady of its NodeNetwork", n.Node.Name)
	}
	return r.throughHost(n, leg)
}

// throughHost changes a packet as the host does that translates it, and sets the port by which the host sends it.
func (r route) throughHost(n facts.Gateway, leg *Leg) error {
	p, balanced := &leg.Packet, r.To.Balanced
	p.Inport, p.From, p.To = names.ManagementPort(n.Node.Name), names.ManagementPort(n.Node.Name), names.RouterToSwitch(n.Node.Name)
	if balanced == nil {
		p.To = r.nextHop(n)
		return nil
	}
	if slices.Contains(balanced.ClusterIPs, r.destination) {
		return nil // the host forwards it as it is
	}
	local := n.Mode == networkv1alpha1.GatewayLocal
	onlyLocal := balanced.OnlyLocal && !contains(n.Node.Subnets, p.Source) // the node's pods are clients inside
	switch {
	case balanced.hostPort != nil:
		if !local || contains(n.Clusters, p.Source) {
			p.Source = seen(n, r.V6)
		}
		p.Destination, p.DestinationPort, p.Backend, p.To = r.Backend.Addr(), r.Backend.Port(), "", balanced.hostPort.pod.port()
		return nil
	case !local && onlyLocal:
		return unknown("the gateway of node %s does not have %s, where services with externalTrafficPolicy Local do not answer", n.Node.Name,
			r.destination)
	case !onlyLocal:
		p.Source = addressOf(facts.ManagementAddresses(n.Node.Subnets), r.V6)
	}
	port := r.port
	if r.To.Kind == Node {
		port, _ = balanced.portOf(r.Protocol, r.port)
	}
	if p.Destination, p.DestinationPort = addressOf(balanced.ClusterIPs, r.V6), port; onlyLocal {
		p.Destination, p.DestinationPort = addressOf(ipam.LocalNodePorts(), r.V6), balanced.NodePorts[port]
	}
	return nil
}
