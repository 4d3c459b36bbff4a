package trace

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
)

// PodEnd returns a pod as an end.
func PodEnd(pod *corev1.Pod) End {
	e := End{Kind: Pod, Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, OnHost: pod.Spec.HostNetwork}
	for _, ip := range pod.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			e.Addresses = append(e.Addresses, a)
		}
	}
	return e
}

// NodeEnd returns a node as an end.
func NodeEnd(name string, w World) End {
	return End{Kind: Node, Name: name, Node: name, Addresses: w[name].HostAddresses}
}

// OutsideEnd returns an address outside the cluster as an end.
func OutsideEnd(address ...netip.Addr) End { return End{Kind: Outside, Addresses: address} }

// UnusedEnd returns an address of the service networks that no service has as an end.
func UnusedEnd(address netip.Addr) End { return End{Kind: Unused, Addresses: []netip.Addr{address}} }

// ServiceEnd returns a service as an end, at its cluster IPs. A service that Weft does not balance, such as a headless
// one, is an UnknownError.
func ServiceEnd(service *corev1.Service, endpoints []discoveryv1.EndpointSlice, w World) (End, error) {
	e := End{Kind: Service, Namespace: service.Namespace, Name: service.Name}
	if !facts.Balanced(service) {
		return e, unknown("Service %s/%s has no address that Weft balances: ask about one of its pods", service.Namespace, service.Name)
	}
	read, _ := facts.ParseService(service, endpoints, nil)
	b := &Balanced{Service: read, Pods: map[netip.Addr]Endpoint{}, NodePorts: map[uint16]uint16{},
		OnlyLocal: service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal, Ours: lbpool.IsOurs(service)}
	for _, p := range service.Spec.Ports {
		b.NodePorts[uint16(p.Port)] = uint16(p.NodePort)
	}
	for i := range endpoints {
		b.addSlice(&endpoints[i], w)
	}
	e.Addresses, e.Balanced = read.ClusterIPs, b
	return e, nil
}

// addSlice adds the endpoints of a slice, ready or not.
func (b *Balanced) addSlice(slice *discoveryv1.EndpointSlice, w World) {
	for i := range slice.Endpoints {
		of := &slice.Endpoints[i]
		e := Endpoint{Ready: of.Conditions.Ready == nil || *of.Conditions.Ready,
			Ending: of.Conditions.Terminating != nil && *of.Conditions.Terminating}
		if of.NodeName != nil {
			e.Node = *of.NodeName
		}
		if ref := of.TargetRef; ref != nil && ref.Kind == "Pod" {
			e.Namespace, e.Pod = ref.Namespace, ref.Name
		}
		for _, text := range of.Addresses {
			address, err := netip.ParseAddr(text)
			if err != nil {
				continue // facts.ParseService reports it to the service's owner
			}
			b.Pods[address] = e
			if node, onHost := w.hostOf(address); onHost && e.Ready {
				b.OnHost = append(b.OnHost, node)
			}
		}
	}
}

// hostOf returns the node that has an address.
func (w World) hostOf(address netip.Addr) (node string, ok bool) {
	for name, n := range w {
		for _, a := range slices.Concat(n.HostAddresses, n.OtherAddresses) {
			if a == address {
				return name, true
			}
		}
	}
	return "", false
}

// At returns the service as an end at another of its addresses: an external IP, or that of a balancer.
func (e End) At(address netip.Addr) End {
	e.Addresses = []netip.Addr{address}
	return e
}

// NodePort returns a node as an end at a service's node port.
func (e End) NodePort(b *Balanced) End {
	e.Balanced = b
	return e
}

// translated returns the question as OVN sees it. A host translates its packets to services: to the cluster IP, and to host ports of its
// pods: to the pod. Its packets to the node port of another node enter there as from outside. A packet from inside to a port that a
// service does not have at an address outside is like any packet to there.
func (q Question) translated(w World) Question {
	b := q.To.Balanced
	if q.From.Kind != Outside && q.pastService() {
		q.To = OutsideEnd(q.To.Addresses...)
		return q
	}
	if b == nil || q.From.Kind != Node && !q.From.OnHost {
		return q
	}
	if q.To.Kind == Node && q.To.Node != q.From.Node {
		q.From = OutsideEnd(w[q.From.Node].HostAddresses...)
		return q
	}
	if q.To.Kind == Node {
		q.Port, _ = b.portOf(q.Protocol, q.Port)
	}
	if b.hostPort != nil {
		q.To, q.Port, q.Backend = b.hostPort.pod, b.hostPort.Target, netip.AddrPort{}
		return q
	}
	q.To = End{Kind: Service, Namespace: b.Namespace, Name: b.Name, Balanced: b, Addresses: b.ClusterIPs}
	return q
}

// Candidates returns the endpoints that load balancers may choose for a question, the first of which stands for all
// without --all-backends. They are empty for destinations without load balancer.
func (q Question) Candidates(w World) []netip.AddrPort {
	q = q.translated(w)
	b := q.To.Balanced
	if b == nil {
		return nil
	}
	port := q.Port
	if q.To.Kind == Node {
		port, _ = b.portOf(q.Protocol, q.Port)
	}
	node := q.clientNode()
	return b.backends(q.Protocol, port, q.V6, b.chooses(q, port), facts.ServiceNode{Name: node, Zone: w[node].TopologyZone})
}

// chooses returns how the balancer that the packet meets chooses among the endpoints.
func (b *Balanced) chooses(q Question, port uint16) facts.Choice {
	if vip, ok := b.met(q, port); ok {
		return vip.From
	}
	return facts.FromAll
}

// met returns the VIP that a packet to a port of the service meets.
func (b *Balanced) met(q Question, port uint16) (vip facts.VIP, ok bool) {
	outside := q.From.Kind == Outside || q.To.Kind == Node && q.From.Node != q.To.Node
	for _, p := range b.Ports {
		if lower(p.Protocol) != q.Protocol || p.Number != port {
			continue
		}
		for _, vip := range p.VIPs {
			at := vip.Addr() == q.To.of(q.V6) || vip.OnNode() && q.To.Kind == Node
			if at && (vip.Reach == facts.ReachAll || (vip.Reach == facts.ReachRouters) == outside) {
				return vip, true
			}
		}
	}
	return facts.VIP{}, false
}

// pastService reports whether a packet to a service's address outside meets no load balancer there, because the service does not have
// the port.
func (q Question) pastService() bool {
	b := q.To.Balanced
	to := q.To.of(q.V6)
	if b == nil || q.To.Kind != Service || !to.IsValid() || slices.Contains(b.ClusterIPs, to) {
		return false
	}
	_, met := b.met(q, q.Port)
	return !met
}

// ForClients returns a question about a service as a question about the addresses of the service outside, or else about its node port at
// the node where clients enter. A service without either keeps its cluster IPs.
func (q Question) ForClients(w World) Question {
	b := q.To.Balanced
	if b == nil || q.To.Kind != Service {
		return q
	}
	var addresses []netip.Addr
	for _, p := range b.Ports {
		if lower(p.Protocol) != q.Protocol || p.Number != q.Port {
			continue
		}
		for _, vip := range p.VIPs {
			inside := slices.Contains(b.ClusterIPs, vip.Addr()) || slices.Contains(ipam.LocalNodePorts(), vip.Addr())
			if !vip.OnNode() && !inside && !slices.Contains(addresses, vip.Addr()) {
				addresses = append(addresses, vip.Addr())
			}
		}
		if len(addresses) == 0 && p.NodePort != 0 {
			q.To, q.Port = NodeEnd(q.Entry, w).NodePort(b), p.NodePort
			return q
		}
	}
	if len(addresses) > 0 {
		q.To.Addresses = addresses
	}
	return q
}

// Has reports whether both ends have an address of a family.
func (q Question) Has(v6 bool) bool {
	from := q.From.of(v6).IsValid() || q.From.OnHost || q.From.Kind == Node
	return from && q.To.of(v6).IsValid()
}

// EntryTo returns the node by which clients outside reach an end if they do not choose: that of an endpoint if only
// those count, and else the first node with a gateway router, or in Local mode the first node.
func (w World) EntryTo(to End) string {
	var all []string
	for name, n := range w {
		if n.Node.Chassis != "" && (n.HasRouter() || n.Mode == networkv1alpha1.GatewayLocal) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	if b := to.Balanced; b != nil && b.OnlyLocal {
		for _, address := range slices.SortedFunc(maps.Keys(b.Pods), netip.Addr.Compare) {
			if e := b.Pods[address]; e.Ready && slices.Contains(all, e.Node) {
				return e.Node
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// OnlyOn returns the node whose endpoints alone count for a question, or "".
func (q Question) OnlyOn(w World) string {
	q = q.translated(w)
	if q.To.Balanced == nil {
		return ""
	}
	port := q.Port
	if q.To.Kind == Node {
		port, _ = q.To.Balanced.portOf(q.Protocol, q.Port)
	}
	if q.To.Balanced.chooses(q, port) != facts.FromLocal {
		return ""
	}
	return q.clientNode()
}

// clientNode is the node whose load balancers choose.
func (q Question) clientNode() string {
	switch {
	case q.To.Kind == Node:
		return q.To.Node
	case q.From.Kind == Outside:
		return q.Entry
	}
	return q.From.Node
}
