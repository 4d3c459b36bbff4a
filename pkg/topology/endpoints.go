package topology

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Balanced reports whether a service has addresses that Weft balances: a headless service has none, and an external name is DNS.
func Balanced(service *corev1.Service) bool {
	return service.Spec.Type != corev1.ServiceTypeExternalName && len(service.Spec.ClusterIPs) > 0 && service.Spec.ClusterIPs[0] != corev1.ClusterIPNone
}

// ParseService reads a service and its slices. What the API server lets pass and cannot be read is left out, and told: problems
// name the field and the value.
func ParseService(service *corev1.Service, endpoints []discoveryv1.EndpointSlice) (parsed Service, problems []string) {
	parsed = Service{Namespace: service.Namespace, Name: service.Name}
	if !Balanced(service) {
		return parsed, nil
	}
	addresses, problems := virtualAddresses(service)
	parsed.Affinity = affinityOf(service.Spec)
	for _, port := range service.Spec.Ports {
		p := ServicePort{Protocol: port.Protocol}
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		for _, address := range addresses {
			p.VIPs = append(p.VIPs, netip.AddrPortFrom(address, uint16(port.Port)))
		}
		var wrong []string
		p.Backends, wrong = backends(endpoints, port.Name, p.Protocol)
		problems = append(problems, wrong...)
		parsed.Ports = append(parsed.Ports, p)
	}
	return parsed, problems
}

// virtualAddresses are the cluster IPs, external IPs and the load balancer's addresses, each once.
func virtualAddresses(service *corev1.Service) (addresses []netip.Addr, problems []string) {
	add := func(field, text string) {
		address, err := netip.ParseAddr(text)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("%s: %q is no IP address", field, text))
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
		// A proxy's address must reach the proxy, which does more than to balance.
		if ingress.IP != "" && (ingress.IPMode == nil || *ingress.IPMode == corev1.LoadBalancerIPModeVIP) {
			add("status.loadBalancer.ingress", ingress.IP)
		}
	}
	return addresses, problems
}

// backends are the ready endpoints of a port, each once. Where none is ready, those that still serve while they end do: better
// than to refuse a client (KEP-1669).
func backends(endpoints []discoveryv1.EndpointSlice, port string, protocol corev1.Protocol) (found []netip.AddrPort, problems []string) {
	var ending []netip.AddrPort
	for i := range endpoints {
		number, ok := portOf(&endpoints[i], port, protocol)
		if !ok {
			continue
		}
		for _, endpoint := range endpoints[i].Endpoints {
			ready, ends := isTrue(endpoint.Conditions.Ready, true), endsAndServes(endpoint.Conditions)
			if len(endpoint.Addresses) == 0 || !ready && !ends {
				continue
			}
			address, err := netip.ParseAddr(endpoint.Addresses[0]) // all addresses of an endpoint are the same pod's (API of discovery/v1)
			if err != nil {
				problems = append(problems, fmt.Sprintf("EndpointSlice %s: %q is no IP address", endpoints[i].Name, endpoint.Addresses[0]))
				continue
			}
			if backend := netip.AddrPortFrom(address, number); ready {
				found = append(found, backend)
			} else {
				ending = append(ending, backend)
			}
		}
	}
	if len(found) == 0 {
		found = ending
	}
	slices.SortFunc(found, netip.AddrPort.Compare)
	return slices.Compact(found), problems
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

// Unsupported names what a service asks for and Weft does not do yet, with what it does instead.
func Unsupported(service *corev1.Service) (problems []string) {
	if !Balanced(service) {
		return nil
	}
	if p := service.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
		problems = append(problems, "spec.internalTrafficPolicy Local is not supported yet: endpoints of all nodes are used")
	}
	if d := service.Spec.TrafficDistribution; d != nil && *d != "" {
		problems = append(problems, fmt.Sprintf("spec.trafficDistribution %s is not supported yet: endpoints of all nodes are used", *d))
	}
	if len(service.Spec.LoadBalancerSourceRanges) > 0 {
		problems = append(problems, "spec.loadBalancerSourceRanges is not supported yet: every client is served")
	}
	if service.Spec.Type == corev1.ServiceTypeNodePort {
		problems = append(problems, "node ports are not supported yet: only the cluster and external IPs are served")
	}
	return problems
}
