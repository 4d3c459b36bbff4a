package desired

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Frontend is an address and port at which clients outside the cluster reach a service.
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
	// HasLocal reports whether this node has a usable endpoint.
	HasLocal bool
	// Pod reports whether ClusterIP is the address of a pod on this node. Its replies pass through the host, so that
	// clients keep their address.
	Pod bool
	// Own is an endpoint with the node's own address, or the zero AddrPort. OVN cannot send packets to it through the
	// gateway router, which has the same address. Nor can it send packets of the host there, because they would meet
	// themselves in conntrack on their way back through the management port. The host therefore sends them itself.
	Own netip.AddrPort
	// Spread are all endpoints. The host chooses one of them for each connection that no policy restricts to this node.
	// It is nil if there is no Own or no other endpoint. OVN cannot choose, because it cannot send packets to Own.
	Spread []netip.AddrPort
	// Beyond is an endpoint on another host that is not a pod, such as an API server. In Local mode OVN's path there
	// leads through the host, and packets of the host would come back to it with its own address. The host therefore
	// sends them itself.
	Beyond netip.AddrPort
	// Inside reports whether Address is the cluster IP itself. Such a frontend exists only because of Own or Beyond, and
	// only for the host's own connections.
	Inside bool
}

// Frontends returns the frontends of a service, sorted by port and then by family.
func Frontends(service *corev1.Service, endpoints LocalEndpoints) []Frontend {
	var found []Frontend
	for i := range service.Spec.Ports {
		for _, clusterIP := range addressesOf(service.Spec.ClusterIPs) {
			found = append(found, frontendsOf(service, &service.Spec.Ports[i], clusterIP, endpoints)...)
		}
	}
	return found
}

// frontendsOf returns the frontends of one port in one family.
func frontendsOf(service *corev1.Service, port *corev1.ServicePort, clusterIP netip.Addr, endpoints LocalEndpoints) []Frontend {
	base := Frontend{
		Protocol: port.Protocol, ClusterIP: clusterIP, ClusterPort: uint16(port.Port), NodePort: uint16(port.NodePort),
		HasLocal: endpoints.Usable, Local: service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
		Own: endpoints.own(port, clusterIP.Is4()), Beyond: endpoints.beyond(port, clusterIP.Is4()),
	}
	if !prefersNear(service) {
		base.Spread = endpoints.all(port, clusterIP.Is4())
	}
	var found []Frontend
	if base.Own.IsValid() || base.Beyond.IsValid() {
		inside := base
		inside.Address, inside.Port, inside.Inside = clusterIP, base.ClusterPort, true
		if p := service.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
			inside.Spread = nil
		}
		found = append(found, inside)
	}
	if base.NodePort != 0 {
		node := base
		node.Port = node.NodePort
		found = append(found, node)
	}
	for _, address := range addressesOf(service.Spec.ExternalIPs) {
		if address.Is4() == clusterIP.Is4() {
			external := base
			external.Address, external.Port = address, base.ClusterPort
			found = append(found, external)
		}
	}
	for _, address := range balancerAddresses(service) {
		if address.Is4() == clusterIP.Is4() {
			balancer := base
			balancer.Address, balancer.Port = address, base.ClusterPort
			balancer.Sources = prefixesOf(service.Spec.LoadBalancerSourceRanges)
			found = append(found, balancer)
		}
	}
	return found
}

// prefersNear reports whether the endpoint on the client's own node is best, either because it is the nearest or because
// a client must keep its endpoint.
func prefersNear(service *corev1.Service) bool {
	distribution := service.Spec.TrafficDistribution
	return service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP || distribution != nil && *distribution != ""
}

// balancerAddresses returns the addresses of load balancers that forward packets unchanged. It omits proxies, which have
// their own connections.
func balancerAddresses(service *corev1.Service) []netip.Addr {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	var found []netip.Addr
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if ingress.IPMode != nil && *ingress.IPMode == corev1.LoadBalancerIPModeProxy {
			continue
		}
		found = append(found, addressesOf([]string{ingress.IP})...)
	}
	return found
}

// addressesOf parses addresses and omits other texts, such as "None" of a headless service.
func addressesOf(texts []string) []netip.Addr {
	var found []netip.Addr
	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil {
			found = append(found, address.Unmap())
		}
	}
	return found
}

func prefixesOf(texts []string) []netip.Prefix {
	var found []netip.Prefix
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			found = append(found, prefix.Masked())
		}
	}
	return found
}

// StripService returns a copy of a service with only what Frontends and the health check read.
func StripService(s *corev1.Service) *corev1.Service {
	kept := &corev1.Service{}
	kept.Namespace, kept.Name, kept.UID, kept.ResourceVersion = s.Namespace, s.Name, s.UID, s.ResourceVersion
	if idle := s.Annotations[networkv1alpha1.IdleAnnotation]; idle != "" {
		kept.Annotations = map[string]string{networkv1alpha1.IdleAnnotation: idle}
	}
	kept.Spec = corev1.ServiceSpec{
		Type: s.Spec.Type, ClusterIPs: s.Spec.ClusterIPs, ExternalIPs: s.Spec.ExternalIPs,
		ExternalTrafficPolicy: s.Spec.ExternalTrafficPolicy, HealthCheckNodePort: s.Spec.HealthCheckNodePort,
		LoadBalancerSourceRanges: s.Spec.LoadBalancerSourceRanges, InternalTrafficPolicy: s.Spec.InternalTrafficPolicy,
		SessionAffinity: s.Spec.SessionAffinity, TrafficDistribution: s.Spec.TrafficDistribution,
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
	return kept
}

// HealthCheckPort returns the port at which load balancers check whether this node has endpoints of the service. It
// returns 0 if there is no such port.
func HealthCheckPort(s *corev1.Service) int32 {
	isLocal := s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || !isLocal {
		return 0
	}
	return s.Spec.HealthCheckNodePort
}
