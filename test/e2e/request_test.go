//go:build e2e

package e2e

import (
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestRequestedAddresses: a pod has, in its own network namespace, the addresses and the MAC that it asks for, and is reached there.
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
	const mac = "52:54:00:12:34:56"
	asking.Annotations = map[string]string{networkv1alpha1.RequestedIPsAnnotation: asks[1:], networkv1alpha1.RequestedMACAnnotation: mac}
	bed.run(t, asking, ordinary)
	for i, ip := range asking.Status.PodIPs {
		if ip.IP != wanted[i].String() {
			t.Errorf("the pod has %s, want %s", ip.IP, wanted[i])
		}
	}
	if have := strings.TrimSpace(string(bed.mustIn(t, asking, "cat", "/sys/class/net/eth0/address"))); have != mac {
		t.Errorf("the pod has MAC %s, want %s", have, mac)
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
