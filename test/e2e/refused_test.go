//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestUnusedPortsAreRefused checks that a cluster IP immediately refuses a port that its service does not have, with
// a reset or an ICMP message, as a host does for a closed port. The service's own ports still answer.
func TestUnusedPortsAreRefused(t *testing.T) {
	near, far := labelled(bed.peerPod("unused-near", "n1"), "unused"), bed.peerPod("unused-far", "n2")
	s := service("unused", "unused")
	bed.create(t, s)
	bed.run(t, near, far)
	t.Cleanup(func() {
		bed.setGateway(t, cleanup(), column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkBridge})
	})
	for _, mode := range []networkv1alpha1.GatewayMode{networkv1alpha1.GatewayShared, networkv1alpha1.GatewayLocal} {
		t.Run(string(mode), func(t *testing.T) {
			bed.setGateway(t, t.Context(), column{mode, networkv1alpha1.UplinkBridge})
			for _, from := range []caller{bed.podCaller(near), bed.podCaller(far), bed.hostCaller("n1"), bed.hostCaller("n2")} {
				for _, address := range addressList(s.Spec.ClusterIPs...) {
					t.Run(fmt.Sprint(from.name, " to ", address), func(t *testing.T) { testUnusedPort(t, from, address, near.Name) })
				}
			}
		})
	}
}

// testUnusedPort calls port 80 of a service, which has a server, and the next port, which has none.
func testUnusedPort(t *testing.T, from caller, address netip.Addr, server string) {
	const used = 80
	eventually(t, 20*time.Second, func() error {
		all, err := from.call(t.Context(), "tcp", netip.AddrPortFrom(address, used), 1)
		if err == nil {
			_, err = answered(all, []string{server})
		}
		return err
	})
	eventually(t, 20*time.Second, func() error { return from.refused(t, netip.AddrPortFrom(address, used+1)) })
}
