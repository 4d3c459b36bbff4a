package facts

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// NameServers returns the addresses of the name servers that pods use: the configured ones, or the cluster IPs of a
// Service.
func NameServers(configured networkv1alpha1.DNS, service *corev1.Service) []networkv1alpha1.IP {
	if len(configured.Nameservers) > 0 {
		return slices.Clone(configured.Nameservers)
	}
	var found []networkv1alpha1.IP
	for _, text := range service.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			found = append(found, networkv1alpha1.IP(a.String()))
		}
	}
	return found
}

// ObservedAddresses returns the addresses that nodes have observed for a DNS name with a wildcard, sorted.
func ObservedAddresses(name string, nodes []networkv1alpha1.NodeNetwork) (addresses []netip.Addr) {
	for i := range nodes {
		for _, observed := range nodes[i].Status.Wildcards {
			if observed.Name != name {
				continue
			}
			for _, text := range observed.Addresses {
				if a, err := netip.ParseAddr(string(text)); err == nil {
					addresses = append(addresses, a.Unmap())
				}
			}
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses)
}
