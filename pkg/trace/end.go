package trace

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// Kind is the kind of an end.
type Kind string

// The kinds of ends.
const (
	Pod     Kind = "Pod"
	Node    Kind = "Node"
	Service Kind = "Service"
	Outside Kind = "Outside"
	// Unused is an address of the service networks that no service has.
	Unused Kind = "Unused"
)

// End is a sender or a receiver.
type End struct {
	Kind Kind
	// Namespace and Name are the object's.
	Namespace, Name string
	// Node is a pod's node, or the node itself. For a service it is empty.
	Node string
	// Addresses are the destinations: a pod's, a node's or a service's addresses, or the address outside.
	Addresses []netip.Addr
	// OnHost means that a pod has its node's network.
	OnHost bool
	// Balanced is the service.
	Balanced *Balanced
	// Routers are a pod's own routers outside.
	Routers []Router
}

// Router is a router of pods that an ExternalRoute selects.
type Router struct {
	facts.NextHop
	// Route is the name of the ExternalRoute.
	Route string
}

// Balanced is a service with its endpoints.
type Balanced struct {
	facts.Service
	// Pods are the endpoints' pods by address.
	Pods map[netip.Addr]Endpoint
	// NodePorts are the node ports by port.
	NodePorts map[uint16]uint16
	// OnlyLocal means that clients outside reach only endpoints on the node that they send to.
	OnlyLocal bool
	// OnHost are the nodes with an endpoint at their own address.
	OnHost []string
	// Ours means that Weft has assigned the addresses of the load balancer, so that nothing else has them.
	Ours bool
	// hostPort is set if it is no service, but a host port of a pod.
	hostPort *hostPort
}

// Endpoint is an endpoint of a service.
type Endpoint struct {
	Namespace, Pod, Node string
	// Ready is what EndpointSlices say. Serving endpoints that end are used if no other exists.
	Ready, Ending bool
}

// Text names the end for people. namespace is left out of names in it.
func (e End) Text(namespace string) string {
	switch e.Kind {
	case Node:
		return "node " + e.Name
	case Outside, Unused:
		if len(e.Addresses) > 0 {
			return e.Addresses[0].String()
		}
		return "outside"
	}
	name := e.Name
	if e.Namespace != namespace {
		name = e.Namespace + "/" + e.Name
	}
	if e.Kind == Service {
		return "Service " + name
	}
	return name
}

// object is the service that the end is.
func (e End) object() Object { return Object{Kind: "Service", Namespace: e.Namespace, Name: e.Name} }

// of returns the end's address of a family. It is invalid if the end has none.
func (e End) of(v6 bool) netip.Addr {
	return addressOf(e.Addresses, v6)
}

func addressOf(addresses []netip.Addr, v6 bool) netip.Addr {
	i := slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is6() == v6 })
	if i < 0 {
		return netip.Addr{}
	}
	return addresses[i]
}

// port is the logical port of a pod on the cluster network, or of the host for anything on a node.
func (e End) port() string {
	if e.Kind == Pod && !e.OnHost {
		return names.PodPort(names.DefaultNetwork, e.Namespace, e.Name)
	}
	return names.ManagementPort(e.Node)
}

// backends returns the endpoints of a service's port that the load balancers of a node may choose, sorted.
func (b *Balanced) backends(protocol Protocol, port uint16, v6 bool, from facts.Choice, node facts.ServiceNode) (found []netip.AddrPort) {
	for _, p := range b.Ports {
		if lower(p.Protocol) != protocol || p.Number != port {
			continue
		}
		ofFamily := slices.DeleteFunc(slices.Clone(p.Backends), func(b facts.Backend) bool { return b.Addr().Is6() != v6 })
		for _, backend := range facts.Choose(ofFamily, from, node) {
			found = append(found, backend.AddrPort)
		}
	}
	slices.SortFunc(found, netip.AddrPort.Compare)
	return slices.Compact(found)
}

// portOf returns the port of a service whose node port is given.
func (b *Balanced) portOf(protocol Protocol, nodePort uint16) (port uint16, ok bool) {
	for _, p := range b.Ports {
		if lower(p.Protocol) == protocol && b.NodePorts[p.Number] == nodePort {
			return p.Number, true
		}
	}
	return 0, false
}

func lower(p corev1.Protocol) Protocol {
	switch p {
	case corev1.ProtocolUDP:
		return UDP
	case corev1.ProtocolSCTP:
		return SCTP
	}
	return TCP
}

// Excluded says of each endpoint that takes no connections of a family why not. onNode restricts to the endpoints that
// policy Local allows; it is empty for all nodes.
func (b *Balanced) Excluded(v6 bool, onNode string) (reasons []string) {
	for _, address := range slices.SortedFunc(maps.Keys(b.Pods), netip.Addr.Compare) {
		e := b.Pods[address]
		if address.Is6() != v6 {
			continue
		}
		name := address.String()
		if e.Pod != "" {
			name = e.Pod
		}
		switch {
		case e.Ending:
			reasons = append(reasons, name+" is terminating")
		case !e.Ready:
			reasons = append(reasons, name+" is not ready")
		case onNode != "" && e.Node != onNode:
			reasons = append(reasons, name+" is on node "+e.Node)
		}
	}
	return reasons
}
