package facts

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// Balanced reports whether Weft balances a service. A headless service has no address and an external name uses DNS.
// Services that are labelled as headless, or for another proxy, are left to others.
func Balanced(service *corev1.Service) bool {
	return !forOthers(service.Labels) && service.Spec.Type != corev1.ServiceTypeExternalName &&
		len(service.Spec.ClusterIPs) > 0 && service.Spec.ClusterIPs[0] != corev1.ClusterIPNone
}

// forOthers reports whether the labels of a service, or of a slice of its endpoints, reserve it for another
// implementation.
func forOthers(labels map[string]string) bool {
	_, proxied := labels[names.ServiceProxyLabel]
	_, headless := labels[corev1.IsHeadlessService]
	return proxied || headless
}

// ParseService reads a service and its slices. nodes are needed if PerNode returns true. Values that the API server
// accepts but that are unreadable are left out, and problems names their field and value.
func ParseService(service *corev1.Service, endpoints []discoveryv1.EndpointSlice, nodes []ServiceNode) (parsed Service,
	problems []string) {
	parsed = Service{Namespace: service.Namespace, Name: service.Name, Nodes: nodes}
	if !Balanced(service) {
		return parsed, nil
	}
	addresses, problems := virtualAddresses(service)
	parsed.ClusterIPs = clusterIPs(service)
	parsed.AffinityTimeout, parsed.Idle = affinityTimeout(service), service.Annotations[networkv1alpha1.IdleAnnotation] == "true"
	for _, port := range service.Spec.Ports {
		p := ServicePort{Protocol: port.Protocol, Number: uint16(port.Port)}
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		for _, address := range addresses {
			p.VIPs = append(p.VIPs, addressVIPs(service, netip.AddrPortFrom(address, p.Number))...)
		}
		p.VIPs = append(p.VIPs, nodePortVIPs(service, port)...)
		var wrong []string
		p.Backends, wrong = backends(endpoints, port.Name, p.Protocol)
		problems = append(problems, wrong...)
		parsed.Ports = append(parsed.Ports, p)
	}
	return parsed, problems
}

// affinityTimeout returns how long a client without a new connection keeps its backend, in seconds, or 0 without affinity.
func affinityTimeout(service *corev1.Service) int {
	if service.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	if c := service.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil {
		if seconds := c.ClientIP.TimeoutSeconds; seconds != nil && *seconds > 0 {
			return int(*seconds)
		}
	}
	return int(corev1.DefaultClientIPServiceAffinitySeconds)
}

// shortestTurn limits how often the balancers of a service with a short timeout change, in nanoseconds.
const shortestTurn = 10 * second

// second is a second in nanoseconds.
const second = 1_000_000_000

// AffinityTurn returns the number of the turn of a service with affinity at a time, in nanoseconds since 1970, and how many
// nanoseconds that turn lasts from then. It is the same in each process. Turns of different services begin at different
// times, because many changes at once would keep ovn-northd busy. Without affinity both are 0.
func AffinityTurn(service *corev1.Service, now int64) (turn int, left int64) {
	timeout := affinityTimeout(service)
	if timeout == 0 || !Balanced(service) {
		return 0, 0
	}
	length := max(int64(timeout)*second, shortestTurn)
	h := fnv.New64a()
	h.Write([]byte(service.Namespace + "/" + service.Name))
	elapsed := now + int64(h.Sum64()%uint64(length))
	return int(elapsed / length), length - elapsed%length
}

// PerNode reports whether the balancers of a service differ between nodes.
func PerNode(service *corev1.Service) bool {
	return Balanced(service) && (internal(service) != FromAll || externalLocal(service) || remembersAtNodes(service))
}

// remembersAtNodes reports whether a service has affinity at the nodes' own addresses.
func remembersAtNodes(service *corev1.Service) bool {
	return affinityTimeout(service) > 0 && slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort != 0 })
}

// ServiceNodes returns the nodes that have a chassis, in the order of their names, with what the service needs of them.
func ServiceNodes(service *corev1.Service, nodes []corev1.Node, networks []networkv1alpha1.NodeNetwork) []ServiceNode {
	byName := make(map[string]*networkv1alpha1.NodeNetwork, len(networks))
	for i := range networks {
		byName[networks[i].Name] = &networks[i]
	}
	addressed := remembersAtNodes(service)
	var found []ServiceNode
	for i := range nodes {
		node, nn := &nodes[i], byName[nodes[i].Name]
		if nn == nil || nn.Status.Chassis == "" {
			continue
		}
		one := ServiceNode{Name: node.Name, Chassis: nn.Status.Chassis, Zone: node.Labels[corev1.LabelTopologyZone]}
		if addressed {
			one.Addresses = NodePortAddresses(nn, node)
		}
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b ServiceNode) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// internal returns how the traffic of pods and hosts chooses backends.
func internal(service *corev1.Service) Choice {
	if p := service.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
		return FromLocal
	}
	return preferred(service)
}

// preferred returns how a service chooses backends where no policy requires local ones.
func preferred(service *corev1.Service) Choice {
	distribution := service.Spec.TrafficDistribution
	if distribution != nil && *distribution != "" || strings.EqualFold(service.Annotations[corev1.AnnotationTopologyMode], "auto") {
		return FromNear
	}
	return FromAll
}

func externalLocal(service *corev1.Service) bool {
	return service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// addressVIPs returns the VIPs of an address of the service. Traffic from within the cluster to an external address
// counts as internal and ignores the policy: only traffic from outside must stay on its node.
func addressVIPs(service *corev1.Service, address netip.AddrPort) []VIP {
	switch {
	case isClusterIP(service, address.Addr()):
		return []VIP{{address, ReachAll, internal(service)}}
	case externalLocal(service):
		return []VIP{{address, ReachSwitches, preferred(service)}, {address, ReachRouters, FromLocal}}
	}
	return []VIP{{address, ReachAll, preferred(service)}}
}

// nodePortVIPs returns the VIPs of a port's node port, in the families of the service.
func nodePortVIPs(service *corev1.Service, port corev1.ServicePort) (vips []VIP) {
	if port.NodePort == 0 {
		return nil
	}
	for i, node := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if !hasFamily(service, node.Is4()) {
			continue
		}
		address := netip.AddrPortFrom(node, uint16(port.NodePort))
		vips = append(vips, addressVIPs(service, address)...)
		if externalLocal(service) {
			vips = append(vips, VIP{netip.AddrPortFrom(ipam.LocalNodePorts()[i], address.Port()), ReachSwitches, FromLocal})
		}
	}
	return vips
}

func hasFamily(service *corev1.Service, is4 bool) bool {
	return slices.ContainsFunc(service.Spec.ClusterIPs, func(text string) bool {
		ip, err := netip.ParseAddr(text)
		return err == nil && ip.Is4() == is4
	})
}

// virtualAddresses returns the cluster IPs, external IPs and the load balancer's addresses, without duplicates.
func virtualAddresses(service *corev1.Service) (addresses []netip.Addr, problems []string) {
	add := func(field, text string) {
		address, err := netip.ParseAddr(text)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("%s: %q is not an IP address", field, text))
		case !slices.Contains(addresses, address):
			addresses = append(addresses, address)
		}
	}
	for _, text := range service.Spec.ClusterIPs {
		add("spec.clusterIPs", text)
	}
	for _, text := range service.Spec.ExternalIPs {
		add("spec.externalIPs", text)
	}
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return addresses, problems
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		// A proxy's address must reach the proxy, because it does more than balance.
		if ingress.IP != "" && (ingress.IPMode == nil || *ingress.IPMode == corev1.LoadBalancerIPModeVIP) {
			add("status.loadBalancer.ingress", ingress.IP)
		}
	}
	return addresses, problems
}

// clusterIPs returns the readable cluster IPs. virtualAddresses reports the others.
func clusterIPs(service *corev1.Service) (addresses []netip.Addr) {
	for _, text := range service.Spec.ClusterIPs {
		if address, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// backends returns the endpoints of a port that are ready, or that still serve while they terminate, without
// duplicates.
func backends(endpoints []discoveryv1.EndpointSlice, port string, protocol corev1.Protocol) (found []Backend, problems []string) {
	seen := map[netip.AddrPort]int{} // index in found
	for i := range endpoints {
		number, ok := portOf(&endpoints[i], port, protocol)
		if !ok || forOthers(endpoints[i].Labels) {
			continue
		}
		for _, endpoint := range endpoints[i].Endpoints {
			ready, ends := isTrue(endpoint.Conditions.Ready, true), endsAndServes(endpoint.Conditions)
			if len(endpoint.Addresses) == 0 || !ready && !ends {
				continue
			}
			// all addresses of an endpoint belong to the same pod (API of discovery/v1)
			address, err := netip.ParseAddr(endpoint.Addresses[0])
			if err != nil {
				problems = append(problems, fmt.Sprintf("EndpointSlice %s: %q is not an IP address", endpoints[i].Name,
					endpoint.Addresses[0]))
				continue
			}
			backend := backendOf(endpoint, netip.AddrPortFrom(address, number), !ready)
			if at, known := seen[backend.AddrPort]; !known {
				seen[backend.AddrPort], found = len(found), append(found, backend)
			} else if ready && found[at].Ending { // briefly in two slices
				found[at] = backend
			}
		}
	}
	slices.SortFunc(found, func(a, b Backend) int { return a.Compare(b.AddrPort) })
	return found, problems
}

func backendOf(endpoint discoveryv1.Endpoint, address netip.AddrPort, ending bool) Backend {
	b := Backend{AddrPort: address, Ending: ending}
	if endpoint.NodeName != nil {
		b.Node = *endpoint.NodeName
	}
	if endpoint.Hints != nil {
		for _, zone := range endpoint.Hints.ForZones {
			b.ForZones = append(b.ForZones, zone.Name)
		}
		for _, node := range endpoint.Hints.ForNodes {
			b.ForNodes = append(b.ForNodes, node.Name)
		}
	}
	return b
}

// portOf returns the number of a port in a slice of IP addresses.
func portOf(endpoints *discoveryv1.EndpointSlice, name string, protocol corev1.Protocol) (number uint16, ok bool) {
	if endpoints.AddressType == discoveryv1.AddressTypeFQDN {
		return 0, false
	}
	for _, p := range endpoints.Ports {
		sameName := p.Name == nil && name == "" || p.Name != nil && *p.Name == name
		sameProtocol := p.Protocol == nil && protocol == corev1.ProtocolTCP || p.Protocol != nil && *p.Protocol == protocol
		if sameName && sameProtocol && p.Port != nil && *p.Port > 0 && *p.Port < 1<<16 {
			return uint16(*p.Port), true
		}
	}
	return 0, false
}

func endsAndServes(c discoveryv1.EndpointConditions) bool {
	return isTrue(c.Terminating, false) && isTrue(c.Serving, false)
}

func isTrue(condition *bool, unset bool) bool {
	if condition == nil {
		return unset
	}
	return *condition
}
