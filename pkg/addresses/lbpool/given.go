package lbpool

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// IsOurs reports whether the operator gave a Service its addresses.
func IsOurs(s *corev1.Service) bool {
	return meta.FindStatusCondition(s.Status.Conditions, networkv1alpha1.ServiceLoadBalancerReady) != nil
}

// Given returns the addresses that the operator gave a Service from LoadBalancerPools.
func Given(s *corev1.Service) []netip.Addr {
	if !IsOurs(s) {
		return nil
	}
	return AddressesOf(s)
}

// AddressesOf returns the addresses of a Service's load balancer, IPv4 first.
func AddressesOf(s *corev1.Service) (addresses []netip.Addr) {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(ingress.IP); err == nil && !slices.Contains(addresses, a) {
			addresses = append(addresses, a)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return addresses
}

// ForeignShares names, for each address, the Service of another namespace that has the address and does not allow the namespace of s.
func ForeignShares(s *corev1.Service, all []corev1.Service) map[netip.Addr]string {
	shares := map[netip.Addr]string{}
	for i := range all {
		o := &all[i]
		if SharingOf(o).Allows(s.Namespace) {
			continue
		}
		for _, a := range AddressesOf(o) {
			text := fmt.Sprintf("%s is shared with service %s/%s, which does not allow namespace %s by annotation %s", a, o.Namespace, o.Name,
				s.Namespace, networkv1alpha1.SharedIPNamespacesAnnotation)
			if had, ok := shares[a]; !ok || text < had { // the cache has no order
				shares[a] = text
			}
		}
	}
	return shares
}

// MayAnnounce reports whether a node may announce addresses of load balancers.
func MayAnnounce(node *corev1.Node) bool {
	_, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]
	return !excluded && node.DeletionTimestamp.IsZero()
}

// IsReady reports whether kubelet reports a node as ready. A node without the condition has no kubelet that reports.
func IsReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return true
}
