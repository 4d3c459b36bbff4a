package desired

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
)

// Frontend is an address and port at which the host serves clients: its own programs, and clients outside the cluster.
type Frontend struct {
	// Address is an external IP or a load balancer's address. The zero Addr stands for every address of the node, at
	// NodePort. An address of 127.0.0.0/8 serves the host only.
	Address  netip.Addr
	Protocol corev1.Protocol
	Port     uint16
	// ClusterIP and ClusterPort are the service's address and port inside the cluster. They have Address's family.
	ClusterIP   netip.Addr
	ClusterPort uint16
	// NodePort is the node port of the service port, or 0.
	NodePort uint16
	// Sources are the only clients that may connect from outside (spec.loadBalancerSourceRanges). Nil means all.
	Sources []netip.Prefix
	// Local reports whether only endpoints on this node may serve clients from outside, which then keep their address.
	Local bool
	// Dropped reports whether connections from outside are dropped, because only other nodes have endpoints for Local.
	Dropped bool
	// Pod reports whether ClusterIP is the address of a pod on this node. Its replies pass through the host, so that
	// clients keep their address.
	Pod bool
	// Inside are the endpoints among which the host chooses for each of its own connections, and Outside those for
	// connections from outside. Nil means that OVN chooses at the cluster IP.
	Inside, Outside []netip.AddrPort
	// ByHost reports whether the host serves all connections from outside, because the gateway router cannot.
	ByHost bool
	// Requested reports whether Address is an external IP, which the user of a namespace chose.
	Requested bool
	// IsClusterIP reports whether Address is the cluster IP itself. Such a frontend exists only because of Inside, and only for the
	// host's own connections.
	IsClusterIP bool
}

// Place is the place from which a service is seen: a node, and how its pods reach the outside.
type Place struct {
	Node facts.ServiceNode // Addresses are all addresses of the node
	Mode networkv1alpha1.GatewayMode
	Pods []netip.Prefix // the networks of all pods
}

// Equal reports whether both places are the same.
func (p Place) Equal(other Place) bool {
	return p.Node.Name == other.Node.Name && p.Node.Zone == other.Node.Zone && p.Mode == other.Mode &&
		slices.Equal(p.Node.Addresses, other.Node.Addresses) && slices.Equal(p.Pods, other.Pods)
}

// Frontends returns the frontends of a service at a node, in the order of its ports and addresses.
func Frontends(service facts.Service, place Place) (found []Frontend) {
	for _, port := range service.Ports {
		for _, vip := range port.VIPs {
			if vip.Reach == facts.ReachRouters || slices.Contains(ipam.LocalNodePorts(), vip.Addr()) {
				continue // the address's other VIP, and an address that only OVN has
			}
			clusterIP, ok := clusterIPFor(service, vip.Addr())
			if !ok {
				continue
			}
			f := Frontend{Protocol: port.Protocol, Port: vip.Port(), ClusterIP: clusterIP, ClusterPort: port.Number, NodePort: port.NodePort}
			if !vip.OnNode() {
				f.Address = vip.Addr()
			}
			f.IsClusterIP, f.Sources = vip.Addr() == clusterIP, service.SourcesAt(vip)
			outside := fromOutside(port, vip)
			f.Local = outside == facts.FromLocal && !f.IsClusterIP
			c := chooser{place: place, port: &port, frontend: &f, sticky: service.AffinityTimeout > 0}
			f.Dropped = f.Local && len(c.choose(facts.FromLocal)) == 0 && len(c.choose(facts.FromAll)) > 0
			f.Inside, _ = c.host(vip.From, false)
			if !f.IsClusterIP {
				f.Outside, f.ByHost = c.host(outside, true)
			}
			if !f.IsClusterIP || f.Inside != nil {
				found = append(found, f)
			}
		}
	}
	return found
}

// WithLoopback returns the frontends and, for each IPv4 node port, one at which the host's own programs reach it by 127.0.0.1. Its
// endpoints are the node's own and pods, because a packet from a loopback address leaves by no link but the management port. The
// kernel cannot translate packets to ::1. own are the node's addresses, pods the networks of all pods.
func WithLoopback(frontends []Frontend, own []netip.Addr, pods []netip.Prefix) (all []Frontend) {
	for _, f := range frontends {
		all = append(all, f)
		if f.Address.IsValid() || !f.ClusterIP.Is4() || f.Pod {
			continue
		}
		at := f
		at.Address, at.Outside, at.ByHost, at.Inside = netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil, false, nil
		for _, e := range f.Inside {
			isPod := slices.ContainsFunc(pods, func(network netip.Prefix) bool { return network.Contains(e.Addr()) })
			if isPod || slices.Contains(own, e.Addr()) {
				at.Inside = append(at.Inside, e)
			}
		}
		if f.Inside == nil || at.Inside != nil {
			all = append(all, at)
		}
	}
	return all
}

// fromOutside returns how clients outside choose at a VIP's address.
func fromOutside(port facts.ServicePort, vip facts.VIP) facts.Choice {
	for _, other := range port.VIPs {
		if other.AddrPort == vip.AddrPort && other.Reach == facts.ReachRouters {
			return other.From
		}
	}
	return vip.From
}

// clusterIPFor returns the cluster IP of an address's family.
func clusterIPFor(service facts.Service, address netip.Addr) (netip.Addr, bool) {
	i := slices.IndexFunc(service.ClusterIPs, func(ip netip.Addr) bool { return ip.Is4() == address.Is4() })
	if i < 0 {
		return netip.Addr{}, false
	}
	return service.ClusterIPs[i], true
}

// most is the maximum number of endpoints among which the host chooses. If there are more, nodes omit different ones.
const most = 16

// chooser chooses the endpoints of a frontend that the host itself serves.
type chooser struct {
	place    Place
	port     *facts.ServicePort
	frontend *Frontend
	sticky   bool // clients must keep their endpoint
}

// choose returns the endpoints in the frontend's family that a choice leaves on the node.
func (c chooser) choose(from facts.Choice) []facts.Backend {
	var family []facts.Backend
	for _, b := range c.port.Backends {
		if b.Addr().Is4() == c.frontend.ClusterIP.Is4() {
			family = append(family, b)
		}
	}
	return facts.Choose(family, from, c.place.Node)
}

// host returns the endpoints among which the host chooses, or nil if OVN does. must reports whether the host has to choose because
// OVN cannot reach an endpoint. OVN cannot send packets to an endpoint with the
// node's own address through the gateway router, which has the same address. Nor can it send packets of the host there,
// because they would meet themselves in conntrack on their way back through the management port. In Local mode, OVN's path
// to an endpoint that is neither a pod nor on a node, such as an API server, leads through the host, and packets of the
// host would come back to it with its own address. And the cluster IP has other endpoints than the frontend if the
// internal policy is Local.
func (c chooser) host(from facts.Choice, outside bool) (endpoints []netip.AddrPort, must bool) {
	chosen := c.choose(from)
	own := slices.DeleteFunc(slices.Clone(chosen), func(b facts.Backend) bool { return !c.isOwn(b) })
	beyond := slices.DeleteFunc(slices.Clone(chosen), func(b facts.Backend) bool { return !c.isBeyond(b) })
	preferred := own
	if len(own) == 0 && c.place.Mode == networkv1alpha1.GatewayLocal {
		preferred = beyond
	}
	if len(chosen) == 0 || len(preferred) == 0 && !c.differs(from, outside) {
		return nil, false
	}
	if outside && c.frontend.Local && len(own) > 0 && c.place.Mode != networkv1alpha1.GatewayLocal {
		chosen = own // pods would not see the client's address, because they reply through the gateway router
	}
	if c.sticky && len(preferred) > 0 {
		chosen = preferred
	}
	limit := most
	if c.sticky { // each client gets the same one
		limit = 1
	}
	if len(chosen) > limit {
		at := c.place.number(len(chosen))
		chosen = slices.Concat(chosen[at:], chosen[:at])[:limit]
	}
	return destinationsOf(chosen), len(preferred) > 0
}

// differs reports whether a choice has other endpoints than the destination by which the host would reach the service: the cluster
// IP, or, for connections from outside that must stay on the node, ipam.LocalNodePorts. In Shared mode the host serves no such
// connections.
func (c chooser) differs(from facts.Choice, outside bool) bool {
	if from == facts.FromLocal {
		return outside && c.place.Mode == networkv1alpha1.GatewayLocal && c.port.NodePort == 0
	}
	return slices.ContainsFunc(c.port.VIPs, func(v facts.VIP) bool {
		return v.Addr() == c.frontend.ClusterIP && v.From == facts.FromLocal
	})
}

// isOwn reports whether an endpoint has an address of the node.
func (c chooser) isOwn(b facts.Backend) bool {
	return slices.Contains(c.place.Node.Addresses, b.Addr())
}

// isBeyond reports whether an endpoint is on no node and is not a pod.
func (c chooser) isBeyond(b facts.Backend) bool {
	return b.Node == "" && !c.isOwn(b) &&
		!slices.ContainsFunc(c.place.Pods, func(network netip.Prefix) bool { return network.Contains(b.Addr()) })
}

// number returns a number below limit that differs between nodes.
func (p Place) number(limit int) int {
	h := fnv.New32a()
	fmt.Fprint(h, p.Node.Name)
	return int(h.Sum32() % uint32(limit))
}

// destinationsOf returns the destinations of backends, sorted and without duplicates.
func destinationsOf(backends []facts.Backend) (found []netip.AddrPort) {
	for _, b := range backends {
		found = append(found, b.AddrPort)
	}
	slices.SortFunc(found, netip.AddrPort.Compare)
	return slices.Compact(found)
}

// addressesOf parses addresses and omits other texts.
func addressesOf(texts []string) (found []netip.Addr) {
	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil {
			found = append(found, address.Unmap())
		}
	}
	return found
}

// StripService returns a copy of a service with only what decides how it is balanced.
func StripService(s *corev1.Service) *corev1.Service {
	kept := &corev1.Service{}
	kept.Namespace, kept.Name, kept.UID, kept.ResourceVersion = s.Namespace, s.Name, s.UID, s.ResourceVersion
	kept.CreationTimestamp = s.CreationTimestamp
	for _, key := range []string{networkv1alpha1.IdleAnnotation, networkv1alpha1.EgressSourceAnnotation} {
		if value := s.Annotations[key]; value != "" {
			if kept.Annotations == nil {
				kept.Annotations = map[string]string{}
			}
			kept.Annotations[key] = value
		}
	}
	kept.Spec = corev1.ServiceSpec{
		Type: s.Spec.Type, ClusterIPs: s.Spec.ClusterIPs, ExternalIPs: s.Spec.ExternalIPs,
		ExternalTrafficPolicy: s.Spec.ExternalTrafficPolicy, HealthCheckNodePort: s.Spec.HealthCheckNodePort,
		LoadBalancerSourceRanges: s.Spec.LoadBalancerSourceRanges, InternalTrafficPolicy: s.Spec.InternalTrafficPolicy,
		SessionAffinity: s.Spec.SessionAffinity,
	}
	for _, port := range s.Spec.Ports {
		kept.Spec.Ports = append(kept.Spec.Ports, corev1.ServicePort{
			Name: port.Name, Protocol: port.Protocol, Port: port.Port, NodePort: port.NodePort,
		})
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		stripped := corev1.LoadBalancerIngress{IP: ingress.IP, IPMode: ingress.IPMode}
		kept.Status.LoadBalancer.Ingress = append(kept.Status.LoadBalancer.Ingress, stripped)
	}
	if lbpool.IsOurs(s) { // its addresses do not yield to an IPPool
		kept.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ServiceLoadBalancerReady}}
	}
	return kept
}
