//go:build e2e

package e2e

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestRequestedAddresses: a pod has, in its own network namespace, the addresses that it asks for, and its node reaches it there.
func TestRequestedAddresses(t *testing.T) {
	var nn networkv1alpha1.NodeNetwork
	must(t, bed.api.Get(t.Context(), types.NamespacedName{Name: "n1"}, &nn))
	var wanted []netip.Addr
	asks := ""
	for _, cidr := range nn.Spec.PodSubnets {
		subnet, err := cidr.Prefix()
		must(t, err)
		address := late(subnet)
		wanted, asks = append(wanted, address), asks+","+address.String()
	}
	asking, ordinary := bed.peerPod("asks", "n1"), bed.peerPod("does-not-ask", "n2")
	asking.Annotations = map[string]string{networkv1alpha1.RequestedIPsAnnotation: asks[1:]}
	bed.run(t, asking, ordinary)
	for i, ip := range asking.Status.PodIPs {
		if ip.IP != wanted[i].String() {
			t.Errorf("the pod has %s, want %s", ip.IP, wanted[i])
		}
	}
	bed.mustReach(t, asking, ordinary)
}

// late is the 200th address of a subnet: the allocator begins at the other end.
func late(subnet netip.Prefix) netip.Addr {
	address := subnet.Addr()
	for range 200 {
		address = address.Next()
	}
	return address
}
