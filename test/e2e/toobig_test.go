//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
)

// TestPathMTU checks that a pod learns the MTU of a narrow link outside from every kind of packet that is too big: a
// whole datagram, a fragment of a datagram, and a fragment of an echo request. That also holds for a pod with a
// policy. Each pod sends one kind, because it remembers what it learned.
func TestPathMTU(t *testing.T) {
	bed.serveOn(t, lab.Far().Name)
	first := column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkBridge}
	t.Cleanup(func() { bed.setGateway(t, cleanup(), first) })
	apart := column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkInterface}
	local := column{networkv1alpha1.GatewayLocal, networkv1alpha1.UplinkBridge}
	for _, c := range []column{first, apart, local} {
		t.Run(c.String(), func(t *testing.T) {
			bed.setGateway(t, t.Context(), c)
			for _, guarded := range []bool{false, true} {
				t.Run(fmt.Sprint("policy ", guarded), func(t *testing.T) { testPathMTU(t, guarded) })
			}
		})
	}
}

func testPathMTU(t *testing.T, guarded bool) {
	const size = 2000 // larger than the link's MTU
	whole, cut, pinging := bed.peerPod("mtu-whole", "n1"), bed.peerPod("mtu-cut", "n2"), bed.peerPod("mtu-ping", "n1")
	if guarded {
		for _, p := range []*corev1.Pod{whole, cut, pinging} {
			labelled(p, "mtu-guarded")
		}
		bed.create(t, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mtu-guarded"},
			Spec: networkingv1.NetworkPolicySpec{PodSelector: app("mtu-guarded"),
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}})
	}
	bed.run(t, whole, cut, pinging)
	for _, address := range ofMachine(lab.Far()).Addresses {
		to := netip.AddrPortFrom(address, echoPort)
		eventually(t, 20*time.Second, func() error { return bed.podCaller(whole).receivesTooBig(t, to, lab.Far().MTU) })
		eventually(t, 20*time.Second, func() error { return bed.podCaller(cut).sendsDatagram(t, to, size, "--fragments") })
		eventually(t, 20*time.Second, func() error { return bed.podCaller(pinging).pings(t, address, size) })
	}
}

// pings returns nil if an echo request with the given number of data bytes is answered.
func (c caller) pings(t *testing.T, to netip.Addr, size int) error {
	out, err := c.run(t.Context(), nil, "ping", "--to="+to.String(), "--size="+strconv.Itoa(size))
	if err != nil {
		return err
	}
	var became []pinged
	if err := json.Unmarshal(bytes.TrimPrefix(out, []byte("ready\n")), &became); err != nil {
		return fmt.Errorf("ping from %s: %w: %s", c.name, err, out)
	}
	if len(became) != 1 || became[0].Lost > 0 {
		return fmt.Errorf("ping from %s with %d bytes: %+v", c.name, size, became)
	}
	return nil
}
