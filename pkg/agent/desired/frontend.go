package desired

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Frontend is one address and port at which a service is reached from outside of the cluster.
type Frontend struct {
	// Address is an external IP or a load balancer's; the zero Addr: every address of the node, by NodePort. One of 127.0.0.0/8 is for the host alone.
	Address  netip.Addr
	Protocol corev1.Protocol
	Port     uint16
	// ClusterIP and ClusterPort are where the same service is reached from inside; they have Address's family.
	ClusterIP   netip.Addr
	ClusterPort uint16
	// NodePort is the service port's own; 0: it has none.
	NodePort uint16
	// Sources are the only clients that may come from outside, by spec.loadBalancerSourceRanges; nil: all.
	Sources []netip.Prefix
	// Local says that only endpoints on this node may serve clients from outside, who keep their address.
	Local bool
	// HasLocal says that this node has a ready endpoint.
	HasLocal bool
	// Pod says that ClusterIP is a pod's on this node: its answers come through the host, so that clients keep their address.
	Pod bool
	// Own is an endpoint that has the node's own address; the zero AddrPort: there is none. OVN cannot send to it what comes through the gateway
	// router, whose address it is too, nor what comes from the host: on its way back through the management port it meets itself in conntrack.
	// So the host does it.
	Own netip.AddrPort
	// Spread are all endpoints, of which the host chooses one for each connection that no policy binds to this node; nil: there is no Own, or none
	// besides it. OVN cannot choose, since it cannot send to Own.
	Spread []netip.AddrPort
	// Beyond is an endpoint that is no pod and not on this node, as an API server. In Local mode OVN's way there is through the host: what
	// comes from the host would come back to it with its own address. So the host does this too.
	Beyond netip.AddrPort
	// Inside says that this is the cluster IP itself, which concerns the host alone, and only because of Own or Beyond.
	Inside bool
}

// Frontends returns those of a service, by port and then family.
func Frontends(service *corev1.Service, endpoints LocalEndpoints) []Frontend {
	var found []Frontend
	for i := range service.Spec.Ports {
		for _, clusterIP := range addressesOf(service.Spec.ClusterIPs) {
			found = append(found, frontendsOf(service, &service.Spec.Ports[i], clusterIP, endpoints)...)
		}
	}
	return found
}

// frontendsOf returns those of one port and one family.
func frontendsOf(service *corev1.Service, port *corev1.ServicePort, clusterIP netip.Addr, endpoints LocalEndpoints) []Frontend {
	base := Frontend{
		Protocol: port.Protocol, ClusterIP: clusterIP, ClusterPort: uint16(port.Port), NodePort: uint16(port.NodePort), HasLocal: endpoints.Usable,
		Local: service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
		Own:   endpoints.own(port, clusterIP.Is4()), Beyond: endpoints.beyond(port, clusterIP.Is4()),
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
			balancer.Address, balancer.Port, balancer.Sources = address, base.ClusterPort, prefixesOf(service.Spec.LoadBalancerSourceRanges)
			found = append(found, balancer)
		}
	}
	return found
}

// prefersNear reports whether a service is served best by the endpoint of the client's own node: since that is the nearest, or a client shall
// stay with its endpoint.
func prefersNear(service *corev1.Service) bool {
	distribution := service.Spec.TrafficDistribution
	return service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP || distribution != nil && *distribution != ""
}

// balancerAddresses are a load balancer's that sends packets on as they are; one that is a proxy has its own connections.
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

// addressesOf leaves out what is none: "None" of a headless service, the empty one.
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

// StripService keeps of a service what Frontends and its health check read.
func StripService(s *corev1.Service) *corev1.Service {
	kept := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion}}
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
		kept.Spec.Ports = append(kept.Spec.Ports, corev1.ServicePort{Name: port.Name, Protocol: port.Protocol, Port: port.Port, NodePort: port.NodePort})
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		kept.Status.LoadBalancer.Ingress = append(kept.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ingress.IP, IPMode: ingress.IPMode})
	}
	return kept
}

// HealthCheckPort is where load balancers ask whether this node has endpoints of the service; 0: they do not.
func HealthCheckPort(s *corev1.Service) int32 {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return 0
	}
	return s.Spec.HealthCheckNodePort
}
