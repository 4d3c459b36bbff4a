//go:build e2e

package e2e

import (
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestRequestedAddresses checks that a pod has the requested addresses and MAC in its network namespace and is
// reachable there.
func TestRequestedAddresses(t *testing.T) {
	var nn networkv1alpha1.NodeNetwork
	must(t, bed.api.Get(t.Context(), types.NamespacedName{Name: "n1"}, &nn))
	var wanted []netip.Addr
	requested := ""
	for _, cidr := range nn.Spec.PodSubnets {
		subnet, err := cidr.Prefix()
		must(t, err)
		address := late(subnet)
		wanted, requested = append(wanted, address), requested+","+address.String()
	}
	custom, ordinary := bed.peerPod("custom", "n1"), bed.peerPod("ordinary", "n2")
	const mac = "52:54:00:12:34:56"
	custom.Annotations = map[string]string{networkv1alpha1.RequestedIPsAnnotation: requested[1:],
		networkv1alpha1.RequestedMACAnnotation: mac}
	bed.run(t, custom, ordinary)
	for i, ip := range custom.Status.PodIPs {
		if ip.IP != wanted[i].String() {
			t.Errorf("the pod has address %s, want %s", ip.IP, wanted[i])
		}
	}
	if have := strings.TrimSpace(string(bed.mustIn(t, custom, "cat", "/sys/class/net/eth0/address"))); have != mac {
		t.Errorf("the pod has MAC %s, want %s", have, mac)
	}
	bed.mustReach(t, custom, ordinary)
}

// late returns the 200th address of a subnet. The allocator starts at the other end.
func late(subnet netip.Prefix) netip.Addr {
	address := subnet.Addr()
	for range 200 {
		address = address.Next()
	}
	return address
}
