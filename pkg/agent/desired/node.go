package desired

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// InternalIP returns the Node's first InternalIP, which has the primary family.
func InternalIP(node *corev1.Node) (netip.Addr, error) {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address, err := netip.ParseAddr(a.Address)
			if err != nil {
				return netip.Addr{}, fmt.Errorf("Node %s: InternalIP: %w", node.Name, err)
			}
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("Node %s has no InternalIP", node.Name)
}

// InternalIPs returns all InternalIPs of a Node that can be parsed.
func InternalIPs(node *corev1.Node) []netip.Addr {
	var found []netip.Addr
	for _, a := range node.Status.Addresses {
		if address, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			found = append(found, address)
		}
	}
	return found
}

// Prefixes parses CIDRs. It omits invalid ones, which the API server does not accept anyway.
func Prefixes(texts []networkv1alpha1.CIDR) []netip.Prefix {
	var found []netip.Prefix
	for _, text := range texts {
		if network, err := text.Prefix(); err == nil {
			found = append(found, network)
		}
	}
	return found
}

// ReasonOf returns the reason of a condition after a write to the local database failed. pending reports whether the
// database does not answer.
func ReasonOf(pending bool) string {
	if pending {
		return networkv1alpha1.ReasonDatabaseUnavailable
	}
	return networkv1alpha1.ReasonDatabaseError
}
