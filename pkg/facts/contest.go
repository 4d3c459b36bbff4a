package facts

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// ServiceAddresses returns the addresses that a service is balanced on, without duplicates.
func ServiceAddresses(service *corev1.Service) []netip.Addr {
	if !Balanced(service) {
		return nil
	}
	addresses, _ := virtualAddresses(service)
	return addresses
}

// Yield removes the VIPs for which another service takes precedence, because OVN would use either balancer for each
// connection. It returns a message for each that names the VIP and the other service.
func (s *Service) Yield(service *corev1.Service, others []corev1.Service) (problems []string) {
	for i := range s.Ports {
		port := &s.Ports[i]
		port.VIPs = slices.DeleteFunc(port.VIPs, func(vip VIP) bool {
			for j := range others {
				if other := &others[j]; hasVIP(other, service, vip.AddrPort, port.Protocol) && precedes(other, service, vip.Addr()) {
					problems = append(problems, fmt.Sprintf("%s %s belongs to service %s/%s", port.Protocol, vip,
						other.Namespace, other.Name))
					return true
				}
			}
			return false
		})
	}
	return problems
}

// hasVIP reports whether a service has an address at a port, and claimant cannot have it. It has its cluster IPs at every port. It has an
// address that Weft gave its load balancer at every port before external IPs of other namespaces, because its owner has not allowed them.
func hasVIP(service, claimant *corev1.Service, vip netip.AddrPort, protocol corev1.Protocol) bool {
	a := vip.Addr()
	byWeft := func(c metav1.Condition) bool { return c.Type == networkv1alpha1.ServiceLoadBalancerReady }
	given := slices.ContainsFunc(service.Status.Conditions, byWeft) && slices.Contains(balancerAddresses(service), a)
	isForeign := claimant.Namespace != service.Namespace && !slices.Contains(balancerAddresses(claimant), a)
	if isClusterIP(service, a) || given && isForeign {
		return true
	}
	hasPort := slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
		return uint16(p.Port) == vip.Port() && cmp.Or(p.Protocol, corev1.ProtocolTCP) == protocol
	})
	return hasPort && slices.Contains(ServiceAddresses(service), vip.Addr())
}

// precedes reports whether a service takes precedence over another for an address. A cluster IP precedes an address of a load balancer,
// which precedes an external IP, because the user of a namespace can add external IPs at any time. Then the older service precedes, then
// the first by name. No service precedes itself.
func precedes(a, b *corev1.Service, address netip.Addr) bool {
	if x, y := rank(a, address), rank(b, address); x != y {
		return x < y
	}
	if x, y := a.CreationTimestamp.Time, b.CreationTimestamp.Time; !x.Equal(y) {
		return x.Before(y)
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}

// rank orders the ways in which a service has an address: 0 for a cluster IP, 1 for an address of a load balancer, 2 for an external IP.
func rank(service *corev1.Service, address netip.Addr) int {
	switch {
	case isClusterIP(service, address):
		return 0
	case slices.Contains(balancerAddresses(service), address):
		return 1
	}
	return 2
}

func isClusterIP(service *corev1.Service, address netip.Addr) bool {
	return slices.Contains(clusterIPs(service), address)
}
