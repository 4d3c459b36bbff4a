package connectivity

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Group is a part of the matrix. --skip and --only take its names.
type Group string

// The groups, in the order in which they are tested and reported.
const (
	PodToPod Group = "pod"
	Service  Group = "service"
	NodePort Group = "nodeport"
	DNS      Group = "dns"
	Headless Group = "headless"
	FromNode Group = "node"
	MTU      Group = "mtu"
	Outside  Group = "outside"
	Policy   Group = "policy"
)

// Groups are all groups in their order.
func Groups() []Group {
	return []Group{PodToPod, Service, NodePort, DNS, Headless, FromNode, MTU, Outside, Policy}
}

// Names of the objects in the check's namespace. Each node runs a pod "a-N", which sends and serves, and a pod "b-N",
// which serves, and which NetworkPolicies isolate.
const (
	SenderLabel     = "a"
	GuardedLabel    = "b"
	ServiceName     = "web"
	HeadlessName    = "headless"
	DenyPolicyName  = "deny"
	AllowPolicyName = "allow"
)

// ServicePort is the port of the service, in TCP and UDP.
const ServicePort = 80

// probePatience is how long a probe is repeated: services and names take a moment to reach all nodes.
const probePatience = 10 * time.Second

// Pod is a pod of the check.
type Pod struct {
	Name, Node string
	Addresses  []netip.Addr
	// Why says why the pod does not run. It is empty if the pod runs.
	Why string
}

// Node is a node of the check.
type Node struct {
	Name      string
	Addresses []netip.Addr // InternalIPs
	A, B      Pod
}

// Bed is what the matrix is made from.
type Bed struct {
	Namespace string
	Nodes     []Node
	// ClusterIPs are the addresses of the service, and NodePorts its node ports by transport, "tcp" and "udp".
	ClusterIPs []netip.Addr
	NodePorts  map[string]int
	// Outside are the targets of --outside: HOST:PORT.
	Outside []string
	// Skip are groups that are not tested.
	Skip []Group
}

// Sender is who sends a probe: a pod, or the agent of a node.
type Sender struct {
	Node, Pod string // no pod: the node
}

// Cell is one packet of the matrix.
type Cell struct {
	Group    Group
	Sender   Sender
	From, To string // for people
	V6       bool
	Protocol string // tcp or udp
	Probe    Probe
	// Servers are the pods of which one must answer. If empty, any answer is right.
	Servers []string
	// Blocked means that a policy must stop the packet.
	Blocked bool
	// Trace are the arguments of "kubectl weft trace" about the packet. They are empty if its address is not known yet.
	Trace []string
}

// Family is the cell's family as Kubernetes writes it.
func (c Cell) Family() string { return map[bool]string{false: "IPv4", true: "IPv6"}[c.V6] }

// Families returns the families that all pods have: false is IPv4, true is IPv6.
func (b Bed) Families() (v6 []bool) {
	for _, six := range []bool{false, true} {
		has := len(b.Nodes) > 0
		for _, p := range b.pods() {
			has = has && (p.Why != "" || addressOf(p.Addresses, six).IsValid())
		}
		if has {
			v6 = append(v6, six)
		}
	}
	return v6
}

func (b Bed) pods() (all []Pod) {
	for _, n := range b.Nodes {
		all = append(all, n.A, n.B)
	}
	return all
}

func addressOf(addresses []netip.Addr, v6 bool) netip.Addr {
	if i := slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is6() == v6 }); i >= 0 {
		return addresses[i]
	}
	return netip.Addr{}
}

// has reports whether a group is tested.
func (b Bed) has(g Group) bool { return !slices.Contains(b.Skip, g) }

// Matrix returns the cells that need no policy.
func (b Bed) Matrix() (cells []Cell) {
	for _, v6 := range b.Families() {
		for i, n := range b.Nodes {
			cells = append(cells, b.fromPod(n, v6)...)
			cells = append(cells, b.fromNode(i, v6)...)
		}
	}
	for _, n := range b.Nodes {
		cells = append(cells, b.toOutside(n)...)
	}
	order := Groups()
	slices.SortStableFunc(cells, func(a, b Cell) int { return slices.Index(order, a.Group) - slices.Index(order, b.Group) })
	return slices.DeleteFunc(cells, func(c Cell) bool { return !b.has(c.Group) })
}

// fromPod returns the cells whose sender is the pod a of a node.
func (b Bed) fromPod(n Node, v6 bool) (cells []Cell) {
	peers := []Pod{n.B}
	for _, other := range b.Nodes {
		if other.Name != n.Name {
			peers = append(peers, other.A)
		}
	}
	for _, p := range peers {
		for _, kind := range []Kind{TCP, UDP} {
			cells = append(cells, b.toPod(PodToPod, n.A, p, kind, v6))
		}
		cells = append(cells, b.toPod(MTU, n.A, p, Size, v6))
	}
	return append(cells, b.toServices(n.A, v6)...)
}

// toServices returns the cells from a pod to the services, by address, name and node port.
func (b Bed) toServices(from Pod, v6 bool) (cells []Cell) {
	service := "svc/" + b.Namespace + "/" + ServiceName
	name := func(of string) string { return of + "." + b.Namespace + ".svc" }
	for _, kind := range []Kind{TCP, UDP} {
		if ip := addressOf(b.ClusterIPs, v6); ip.IsValid() {
			cells = append(cells, b.cell(Service, from, v6, kind, "service "+ServiceName, ip.String(), ServicePort, service))
		}
		for _, n := range b.Nodes {
			if at := addressOf(n.Addresses, v6); at.IsValid() && b.NodePorts[string(kind)] != 0 {
				cells = append(cells, b.cell(NodePort, from, v6, kind, "node port of "+n.Name, at.String(), b.NodePorts[string(kind)], "node/"+n.Name))
			}
		}
	}
	var all []netip.Addr
	for _, p := range b.pods() {
		if a := addressOf(p.Addresses, v6); a.IsValid() && p.Why == "" {
			all = append(all, a)
		}
	}
	if ip := addressOf(b.ClusterIPs, v6); ip.IsValid() {
		cells = append(cells, b.toName(from, v6, name(ServiceName), []netip.Addr{ip}))
	}
	cells = append(cells, b.toName(from, v6, name(HeadlessName), all))
	return append(cells, b.cell(Headless, from, v6, TCP, name(HeadlessName), name(HeadlessName), Port, ""))
}

// toName returns the cell that resolves a name.
func (b Bed) toName(from Pod, v6 bool, name string, want []netip.Addr) Cell {
	c := b.cell(DNS, from, v6, Name, name, name, 0, "")
	c.Probe.To, c.Probe.Want, c.Servers = name, want, nil
	return c
}

// cell returns the cell of a packet from a pod, or, without a name, from a node. to is a host. Any pod may answer.
func (b Bed) cell(g Group, from Pod, v6 bool, kind Kind, text, to string, port int, traceTo string) Cell {
	c := Cell{Group: g, Sender: Sender{Node: from.Node, Pod: from.Name}, From: podText(from), To: text, V6: v6, Protocol: string(TCP),
		Probe: Probe{Kind: kind, To: net.JoinHostPort(to, strconv.Itoa(port)), V6: v6, Patience: probePatience}}
	if kind == UDP || kind == Size || kind == Name {
		c.Protocol = string(UDP)
	}
	for _, p := range b.pods() {
		c.Servers = append(c.Servers, p.Name)
	}
	if traceTo != "" {
		c.Trace = b.traceArgs(c, traceTo, port)
	}
	return c
}

// traceArgs returns the arguments of "kubectl weft trace" about a cell's packet.
func (b Bed) traceArgs(c Cell, to string, port int) []string {
	from := "node/" + c.Sender.Node
	if c.Sender.Pod != "" {
		from = b.Namespace + "/" + c.Sender.Pod
	}
	return []string{from, to, "--protocol", c.Protocol, "--port", strconv.Itoa(port), "--family", c.Family()}
}

func podText(p Pod) string {
	if p.Name == "" {
		return "node " + p.Node
	}
	return "pod " + p.Name + " on " + p.Node
}

// toPod returns the cell of a packet to a pod, which alone must answer.
func (b Bed) toPod(g Group, from, to Pod, kind Kind, v6 bool) Cell {
	c := b.cell(g, from, v6, kind, podText(to), addressOf(to.Addresses, v6).String(), Port, b.Namespace+"/"+to.Name)
	c.Servers = []string{to.Name}
	return c
}

// fromNode returns the cells whose sender is a node.
func (b Bed) fromNode(i int, v6 bool) (cells []Cell) {
	from := Pod{Node: b.Nodes[i].Name}
	for _, n := range b.Nodes {
		cells = append(cells, b.toPod(FromNode, from, n.A, TCP, v6))
		if at := addressOf(n.Addresses, v6); at.IsValid() && b.NodePorts[string(TCP)] != 0 && n.Name != from.Node {
			cells = append(cells, b.cell(NodePort, from, v6, TCP, "node port of "+n.Name, at.String(), b.NodePorts[string(TCP)], "node/"+n.Name))
		}
	}
	if ip := addressOf(b.ClusterIPs, v6); ip.IsValid() {
		cells = append(cells, b.cell(FromNode, from, v6, TCP, "service "+ServiceName, ip.String(), ServicePort,
			"svc/"+b.Namespace+"/"+ServiceName))
	}
	return cells
}

// toOutside returns the cells from a node's pod to the targets outside. A name is resolved in the cluster's first
// family.
func (b Bed) toOutside(n Node) (cells []Cell) {
	for _, target := range b.Outside {
		at, err := netip.ParseAddrPort(target)
		c := Cell{Group: Outside, Sender: Sender{Node: n.Name, Pod: n.A.Name}, From: podText(n.A), To: target, Protocol: string(TCP),
			V6: slices.Index(b.Families(), true) == 0, Probe: Probe{Kind: Open, To: target, Patience: probePatience}}
		if c.Probe.V6 = c.V6; err == nil {
			c.V6 = at.Addr().Is6()
			c.Trace = b.traceArgs(c, at.Addr().String(), int(at.Port()))
		}
		cells = append(cells, c)
	}
	return cells
}

// guardedPatience is how long a probe to a guarded pod is repeated. The check repeats these cells itself until a
// policy has reached all nodes.
const guardedPatience = 0

// Denied returns the cells that the policy DenyPolicyName must stop: to the pod b of the same and of the next node.
func (b Bed) Denied() (cells []Cell) {
	return b.guarded(func(from Node, to Pod, v6 bool) []Cell {
		return []Cell{blocked(b.toPod(Policy, from.A, to, TCP, v6)), blocked(b.toPod(Policy, from.A, to, UDP, v6))}
	})
}

// Allowed returns the cells that the policy AllowPolicyName must admit, TCP from the pods a, and the cells that
// DenyPolicyName must still stop: UDP, and pods b.
func (b Bed) Allowed() (cells []Cell) {
	return b.guarded(func(from Node, to Pod, v6 bool) (cells []Cell) {
		cells = append(cells, b.toPod(Policy, from.A, to, TCP, v6), blocked(b.toPod(Policy, from.A, to, UDP, v6)))
		if from.B.Name != to.Name {
			cells = append(cells, blocked(b.toPod(Policy, from.B, to, TCP, v6)))
		}
		return cells
	})
}

func blocked(c Cell) Cell {
	c.Blocked = true
	return c
}

// guarded returns the cells of each node to the pod b of the same and of the next node.
func (b Bed) guarded(cellsOf func(from Node, to Pod, v6 bool) []Cell) (cells []Cell) {
	if !b.has(Policy) {
		return nil
	}
	for _, v6 := range b.Families() {
		for i, n := range b.Nodes {
			cells = append(cells, cellsOf(n, n.B, v6)...)
			if next := b.Nodes[(i+1)%len(b.Nodes)]; next.Name != n.Name {
				cells = append(cells, cellsOf(n, next.B, v6)...)
			}
		}
	}
	for i := range cells {
		cells[i].Probe.Patience = guardedPatience
	}
	return cells
}

// Directions returns the flows of --for: from the pod a of each node to the pod b of the same node, to the pod a of each
// other node, and to the service.
func (b Bed) Directions() (cells []Cell) {
	for _, v6 := range b.Families() {
		for _, n := range b.Nodes {
			for _, c := range b.fromPod(n, v6) {
				if c.Probe.Kind == UDP && (c.Group == PodToPod || c.Group == Service) {
					cells = append(cells, c)
				}
			}
		}
	}
	return slices.DeleteFunc(cells, func(c Cell) bool { return !b.has(c.Group) })
}

// Unstarted returns the sender or the only server of a cell, if it does not run.
func (b Bed) Unstarted(c Cell) (p Pod, ok bool) {
	for _, p := range b.pods() {
		if p.Why != "" && (p.Name == c.Sender.Pod || len(c.Servers) == 1 && c.Servers[0] == p.Name) {
			return p, true
		}
	}
	return Pod{}, false
}

// Refused returns the outcome of a cell whose pod does not run, with the command that explains it.
func (b Bed) Refused(c Cell, p Pod) Outcome {
	o := c.Unsent(fmt.Sprintf("%s does not run: %s", podText(p), p.Why))
	o.Command = "kubectl weft why " + b.Namespace + "/" + p.Name
	return o
}
