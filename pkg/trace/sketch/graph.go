package sketch

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/trace"
)

// Shape is the kind of a vertex.
type Shape string

// The shapes.
const (
	Router  Shape = "router"
	Switch  Shape = "switch"
	Host    Shape = "host"
	Pod     Shape = "pod"
	Service Shape = "service"
	Outside Shape = "outside"
	// Decision is a hop at which a policy or another object decides. No graph of the network has it.
	Decision Shape = "decision"
)

// Vertex is a part of the network.
type Vertex struct {
	Name  string `json:"name"`
	Shape Shape  `json:"shape"`
	// Detail is the addresses, or why a part is missing.
	Detail string `json:"detail,omitempty"`
	// Object is the argument of "kubectl weft topology" that draws the part around the vertex. It is empty if none does.
	Object string `json:"object,omitempty"`
	// Below are the vertices that hang on this vertex. A vertex may hang on several.
	Below []*Vertex `json:"below,omitempty"`
}

// Graph is a network: trees that may share vertices.
type Graph struct {
	Roots []*Vertex `json:"roots"`
}

// Input is the objects that a graph is made from.
type Input struct {
	Nodes    trace.World
	Pods     []trace.End
	Services []trace.End
}

// Around reduces the input to the part around an object: a node with its pods, a pod with its node and services, or a
// service with its endpoints and their nodes. around.Kind is Node, Pod or Service.
func (in Input) Around(around trace.End) Input {
	endpoints := func(s trace.End, pod trace.End) bool {
		return slices.ContainsFunc(pod.Addresses, func(a netip.Addr) bool { _, ok := s.Balanced.Pods[a]; return ok })
	}
	same := func(e trace.End) bool {
		return e.Kind == around.Kind && e.Namespace == around.Namespace && e.Name == around.Name
	}
	pods := slices.DeleteFunc(slices.Clone(in.Pods), func(p trace.End) bool {
		switch around.Kind {
		case trace.Node:
			return p.Node != around.Name
		case trace.Service:
			return !endpoints(around, p)
		}
		return !same(p)
	})
	services := slices.DeleteFunc(slices.Clone(in.Services), func(s trace.End) bool {
		if around.Kind == trace.Service {
			return !same(s)
		}
		return !slices.ContainsFunc(pods, func(p trace.End) bool { return endpoints(s, p) })
	})
	nodes := trace.World{}
	for name, n := range in.Nodes {
		if name == around.Name && around.Kind == trace.Node || slices.ContainsFunc(pods, func(p trace.End) bool { return p.Node == name }) {
			nodes[name] = n
		}
	}
	return Input{Nodes: nodes, Pods: pods, Services: services}
}

// Draw returns the graph of an input. Its order depends only on names.
func Draw(in Input) Graph {
	cluster := &Vertex{Name: names.ClusterRouter, Shape: Router}
	join := &Vertex{Name: names.JoinSwitch, Shape: Switch}
	pods := podVertices(in)
	for _, name := range sorted(in.Nodes) {
		n := in.Nodes[name]
		if n.HasRouter() || n.HasEgressRouter() {
			join.Below = append(join.Below, gateway(n))
		}
		cluster.Below = append(cluster.Below, nodeSwitch(n, in.Pods, pods))
	}
	if len(join.Below) > 0 {
		cluster.Below = append([]*Vertex{join}, cluster.Below...)
	}
	g := Graph{Roots: []*Vertex{cluster}}
	for _, s := range byName(in.Services) {
		g.Roots = append(g.Roots, balancer(s, pods))
	}
	return g
}

func sorted(w trace.World) (all []string) {
	for name := range w {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func byName(ends []trace.End) []trace.End {
	return slices.SortedFunc(slices.Values(ends), func(a, b trace.End) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
}

// gateway is a node's gateway router, and its way outside.
func gateway(n facts.Gateway) *Vertex {
	if n.HasEgressRouter() {
		return &Vertex{Name: names.EgressRouter(n.Node.Name), Shape: Router, Detail: "egress IPs",
			Below: []*Vertex{{Name: names.EgressPort(n.Node.Name), Shape: Outside, Detail: "outside, by the host"}}}
	}
	var addresses []string
	for _, a := range n.Addresses {
		addresses = append(addresses, a.String())
	}
	return &Vertex{Name: names.GatewayRouter(n.Node.Name), Shape: Router, Detail: strings.Join(addresses, " "),
		Below: []*Vertex{{Name: names.Localnet(n.Bridge, n.Node.Name), Shape: Outside, Detail: "outside, by next hops " + text(n.NextHops)}}}
}

func text(addresses []netip.Addr) string {
	var all []string
	for _, a := range addresses {
		all = append(all, a.String())
	}
	return strings.Join(all, " ")
}

// nodeSwitch is a node's switch with the host and the pods of the cluster network.
func nodeSwitch(n facts.Gateway, all []trace.End, pods map[netip.Addr]*Vertex) *Vertex {
	var subnets []string
	for _, s := range n.Node.Subnets {
		subnets = append(subnets, s.String())
	}
	v := &Vertex{Name: names.NodeSwitch(n.Node.Name), Shape: Switch, Detail: strings.Join(subnets, " "), Object: "node/" + n.Node.Name}
	host := &Vertex{Name: "host " + n.Node.Name, Shape: Host, Detail: text(facts.ManagementAddresses(n.Node.Subnets))}
	v.Below = append(v.Below, host)
	if n.Node.Chassis == "" {
		v.Detail += ", no chassis: its agent has not reported"
	}
	for _, p := range byName(all) {
		if p.Node != n.Node.Name || len(p.Addresses) == 0 {
			continue
		}
		if p.OnHost {
			host.Below = append(host.Below, &Vertex{Name: "pod " + p.Namespace + "/" + p.Name, Shape: Pod, Detail: "in the node's network",
				Object: "pod/" + p.Namespace + "/" + p.Name})
			continue
		}
		v.Below = append(v.Below, pods[p.Addresses[0]])
	}
	return v
}

// podVertices returns the vertices of pods by address.
func podVertices(in Input) map[netip.Addr]*Vertex {
	all := map[netip.Addr]*Vertex{}
	for _, p := range in.Pods {
		if p.OnHost {
			continue
		}
		name := p.Namespace + "/" + p.Name
		v := &Vertex{Name: "pod " + name, Shape: Pod, Detail: text(p.Addresses), Object: "pod/" + name}
		for _, a := range p.Addresses {
			all[a] = v
		}
	}
	return all
}

// balancer is a service with the endpoints that take connections. The others are in its detail.
func balancer(s trace.End, pods map[netip.Addr]*Vertex) *Vertex {
	v := &Vertex{Name: "service " + s.Namespace + "/" + s.Name, Shape: Service, Detail: text(s.Addresses),
		Object: "svc/" + s.Namespace + "/" + s.Name}
	for _, p := range s.Balanced.Ports {
		v.Detail += fmt.Sprintf(", %s %d", p.Protocol, p.Number)
		for _, b := range p.Backends {
			below, ok := pods[b.Addr()]
			if !ok {
				below = &Vertex{Name: b.Addr().String(), Shape: Host}
			}
			known := slices.ContainsFunc(v.Below, func(other *Vertex) bool { return other.Name == below.Name })
			if !known && (ok || s.Balanced.Pods[b.Addr()].Pod == "") {
				v.Below = append(v.Below, below)
			}
		}
	}
	for _, reason := range slices.Concat(s.Balanced.Excluded(false, ""), s.Balanced.Excluded(true, "")) {
		if !strings.Contains(v.Detail, reason) {
			v.Detail += ", " + reason
		}
	}
	slices.SortFunc(v.Below, func(a, b *Vertex) int { return strings.Compare(a.Name, b.Name) })
	return v
}
