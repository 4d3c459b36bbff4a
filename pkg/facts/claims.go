package facts

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

// GatewayAddresses returns the addresses that a node's gateway claims according to its agent.
func GatewayAddresses(nn *networkv1alpha1.NodeNetwork) []netip.Addr {
	if nn.Status.Gateway == nil {
		return nil
	}
	parsed, err := interfaceAddresses("", nn.Status.Gateway.Addresses)
	if err != nil {
		return nil // ParseGateway reports the error
	}
	return ipam.Addresses(parsed)
}

// ReportedAddresses returns the addresses of a node according to its agent.
func ReportedAddresses(nn *networkv1alpha1.NodeNetwork) []netip.Addr {
	found := GatewayAddresses(nn)
	for _, text := range nn.Status.HostAddresses {
		if address, err := text.Addr(); err == nil { // ParseGateway reports the error
			found = append(found, address)
		}
	}
	return found
}

// InternalIPs returns a Node's own addresses.
func InternalIPs(node *corev1.Node) []netip.Addr {
	return hostAddresses(node, nil, networkv1alpha1.UplinkInterface)
}

// NodeAddresses returns a node's addresses according to its Node or NodeNetwork.
func NodeAddresses(o metav1.Object) []netip.Addr {
	switch o := o.(type) {
	case *corev1.Node:
		return InternalIPs(o)
	case *networkv1alpha1.NodeNetwork:
		return ReportedAddresses(o)
	}
	return nil
}

// Usurped reports which address of a node's gateway belongs to another node, or "". An address belongs to the Nodes
// that have it as an InternalIP, and otherwise to the oldest NodeNetwork that claims it. nodes and claims must
// include all objects that have one of the addresses.
func Usurped(nn *networkv1alpha1.NodeNetwork, nodes []corev1.Node, claims []networkv1alpha1.NodeNetwork) string {
	for _, address := range GatewayAddresses(nn) {
		var owners []string
		for i := range nodes {
			if slices.Contains(InternalIPs(&nodes[i]), address) {
				owners = append(owners, nodes[i].Name)
			}
		}
		if len(owners) > 0 {
			if !slices.Contains(owners, nn.Name) {
				return fmt.Sprintf("address %s of node %s's gateway is an InternalIP of node %s", address, nn.Name, slices.Min(owners))
			}
			continue
		}
		first := nn
		for i := range claims {
			if slices.Contains(GatewayAddresses(&claims[i]), address) && older(&claims[i], first) < 0 {
				first = &claims[i]
			}
		}
		if first.Name != nn.Name {
			return fmt.Sprintf("address %s of node %s's gateway is already an address of node %s's gateway", address, nn.Name, first.Name)
		}
	}
	return ""
}

func older(a, b *networkv1alpha1.NodeNetwork) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
