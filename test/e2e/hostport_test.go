//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/test/lab"
)

// TestHostPorts calls a pod through ports of its node, over both protocols and families: from outside, where the pod
// sees the caller's address, from a pod on either node, and from both nodes. Without the pod, the port is closed.
func TestHostPorts(t *testing.T) {
	const port = 18088
	server := bed.peerPod("hostport", "n1")
	server.Spec.Containers[0].Ports = []corev1.ContainerPort{
		{ContainerPort: whoPort, HostPort: port, Protocol: corev1.ProtocolTCP},
		{ContainerPort: whoPort, HostPort: port, Protocol: corev1.ProtocolUDP}}
	near, far := bed.peerPod("hostport-near", "n1"), bed.peerPod("hostport-far", "n2")
	bed.run(t, server, near, far)
	outside := lab.Outside()
	from := map[string][]netip.Addr{outside.Name: {outside.IPv4.Addr(), outside.IPv6.Addr()},
		near.Name: addressesOf(near), far.Name: nil, "n1": nil, "n2": nil}
	callers := map[string]caller{outside.Name: bed.hostCaller(outside.Name), near.Name: bed.podCaller(near), far.Name: bed.podCaller(far),
		"n1": bed.hostCaller("n1"), "n2": bed.hostCaller("n2")}
	node := lab.Node(1)
	for name, sources := range from {
		for _, address := range []netip.Addr{node.IPv4.Addr(), node.IPv6.Addr()} {
			for _, protocol := range []string{"tcp", "udp"} {
				eventually(t, 20*time.Second, func() error {
					all, err := callers[name].call(t.Context(), protocol, netip.AddrPortFrom(address, port), 1)
					if err == nil {
						_, err = answered(all, []string{server.Name})
					}
					if err != nil {
						return fmt.Errorf("%s calls %s over %s: %w", name, address, protocol, err)
					}
					seen, err := netip.ParseAddrPort(all[0].Client)
					if err != nil || sources != nil && !slices.Contains(sources, seen.Addr().Unmap()) {
						t.Errorf("%s calls %s over %s and is seen as %q, want one of %v", name, address, protocol, all[0].Client, sources)
					}
					return nil
				})
			}
		}
	}
	bed.remove(t, server)
	for name, c := range callers {
		eventually(t, 20*time.Second, func() error {
			all, err := c.call(t.Context(), "tcp", netip.AddrPortFrom(node.IPv4.Addr(), port), 1)
			if err == nil && all[0].Server != "" {
				err = fmt.Errorf("%s is still answered by %s", name, all[0].Server)
			}
			return err
		})
	}
}
