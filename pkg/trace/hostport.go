package trace

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
)

// hostPort is a port of a node that leads to a pod of the node.
type hostPort struct {
	facts.HostPort
	pod End
}

// HostPort returns a node as an end at a host port of a pod of the node: a node port whose only endpoint is the pod.
func (e End) HostPort(pod *corev1.Pod, port facts.HostPort) End {
	to := PodEnd(pod)
	b := &Balanced{Service: facts.Service{Namespace: pod.Namespace, Name: pod.Name}, Pods: map[netip.Addr]Endpoint{},
		NodePorts: map[uint16]uint16{port.Port: port.Port}, hostPort: &hostPort{port, to}}
	served := facts.ServicePort{Protocol: port.Protocol, Number: port.Port, NodePort: port.Port}
	for _, address := range to.Addresses {
		b.Pods[address] = Endpoint{Namespace: pod.Namespace, Pod: pod.Name, Node: to.Node, Ready: true}
		served.Backends = append(served.Backends, facts.Backend{AddrPort: netip.AddrPortFrom(address, port.Target), Node: to.Node})
	}
	if b.Ports = []facts.ServicePort{served}; port.Address.IsValid() {
		e.Addresses = []netip.Addr{port.Address}
	}
	e.Balanced = b
	return e
}

// HostPort returns the pod among a node's, and the host port of it, that packets to the end, which is a node, come to. pod is nil if
// no pod has it.
func (q Question) HostPort(pods []corev1.Pod) (pod *corev1.Pod, port facts.HostPort) {
	for i := range pods {
		pod := &pods[i]
		if !facts.WantsPort(pod) {
			continue
		}
		for _, port := range facts.PortsOfNode(pod) {
			kept := func(other corev1.Pod) bool { return facts.HostPortHolder(pod, &other, port) != "" }
			if lower(port.Protocol) == q.Protocol && port.Port == q.Port && q.at(port.Address) && !slices.ContainsFunc(pods, kept) {
				return pod, port
			}
		}
	}
	return nil, facts.HostPort{}
}

// at reports whether the address of a host port is the destination, a node. Only the node itself reaches its loopback address.
func (q Question) at(address netip.Addr) bool {
	if address.IsLoopback() {
		return (q.From.Kind == Node || q.From.OnHost) && q.From.Node == q.To.Node
	}
	return !address.IsValid() || slices.Contains(q.To.Addresses, address)
}

// byHost reports whether the host of a node, and not its gateway router, translates packets from outside to the destination: in Local
// mode, and at addresses of the node that the router does not have.
func (r route) byHost(n facts.Gateway) bool {
	has := func(p netip.Prefix) bool { return p.Addr() == r.destination }
	return n.Mode == networkv1alpha1.GatewayLocal || r.To.Kind == Node && !slices.ContainsFunc(n.Addresses, has)
}

// byOVN reports whether the load balancers of a node's switch serve the node's pods at the destination, one of the node's addresses. At
// all others the packet comes to the host, which leads it back.
func (r route) byOVN(n facts.Gateway) bool {
	return r.atAddress() || slices.Contains(n.ServedAt(), r.destination)
}

// unserved reports whether a node serves no node ports and host ports at the destination, one of its addresses.
func (r route) unserved(n facts.Gateway) bool {
	known := slices.Contains(ipam.Addresses(n.Addresses), r.destination) || slices.Contains(n.HostAddresses, r.destination)
	return known && !r.atAddress() && !slices.Contains(n.Ports, r.destination)
}

// atAddress reports whether the destination is a host port with an address of its own.
func (r route) atAddress() bool {
	b := r.To.Balanced
	return b != nil && b.hostPort != nil && b.hostPort.Address.IsValid()
}

// seen returns the address that pods see as the client of a connection that their host hides.
func seen(n facts.Gateway, v6 bool) netip.Addr {
	internal := slices.DeleteFunc(slices.Clone(n.HostAddresses), func(a netip.Addr) bool {
		return slices.Contains(ipam.Addresses(n.Addresses), a)
	})
	return addressOf(slices.Concat(internal, n.HostAddresses), v6)
}

func contains(all []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(address) })
}
