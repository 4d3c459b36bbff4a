//go:build e2e

package e2e

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestTraffic runs two pods on each node. They become Ready only if kubelet on the host reaches its own pods.
func TestTraffic(t *testing.T) {
	a1, b1 := bed.peerPod("a1", "n1"), bed.peerPod("b1", "n1")
	a2, b2 := bed.peerPod("a2", "n2"), bed.peerPod("b2", "n2")
	bed.run(t, a1, b1, a2, b2)

	t.Run("every pod reaches every pod", func(t *testing.T) { bed.mustReach(t, a1, b1, a2, b2) })
	t.Run("every node reaches every pod", func(t *testing.T) {
		for _, node := range []string{"n1", "n2"} {
			eventually(t, 10*time.Second, func() error { return bed.hostReach(t.Context(), node, a1, b1, a2, b2) })
		}
	})
	for name, family := range map[string]func(netip.Addr) bool{"IPv4": is4, "IPv6": is6} {
		t.Run("packets of the MTU pass and larger packets are refused/"+name, func(t *testing.T) {
			for _, to := range []*corev1.Pod{b1, a2} {
				testMTU(t, a1, address(t, to, family))
			}
		})
	}
	t.Run("the pods' MTU equals the status", func(t *testing.T) {
		for _, p := range []*corev1.Pod{a1, a2} {
			if have := linkMTU(t, p); have != clusterMTU(t) {
				t.Errorf("pod %s: eth0 has MTU %d, ClusterNetwork says %d", p.Name, have, clusterMTU(t))
			}
		}
	})
}

// macOf reads the pod's MAC from its port.
func macOf(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	ports, err := bed.ports(t.Context())
	must(t, err)
	mac, _, ok := strings.Cut(ports[portOf(p)].text("addresses"), " ")
	if !ok {
		t.Fatalf("port %s: %v", portOf(p), ports[portOf(p)])
	}
	return mac
}

func testMTU(t *testing.T, from *corev1.Pod, to netip.Addr) {
	mtu := clusterMTU(t)
	type outcome struct {
		TooLong, Echoed bool
		Error           string
	}
	send := func(size int) (o outcome) {
		out := bed.mustIn(t, from, peerPath, "datagram", "--to="+to.String(), "--size="+strconv.Itoa(size))
		must(t, json.Unmarshal(out, &o))
		return o
	}
	if o := send(mtu); !o.Echoed {
		t.Errorf("%d bytes to %s: %+v", mtu, to, o)
	}
	if o := send(mtu + 1); !o.TooLong {
		t.Errorf("%d bytes to %s: %+v, want them refused", mtu+1, to, o)
	}
}

func clusterMTU(t *testing.T) int {
	t.Helper()
	var cn networkv1alpha1.ClusterNetwork
	must(t, bed.api.Get(t.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn))
	return int(cn.Status.MTU)
}

func linkMTU(t *testing.T, p *corev1.Pod) int {
	t.Helper()
	mtu, err := strconv.Atoi(strings.TrimSpace(string(bed.mustIn(t, p, "cat", "/sys/class/net/eth0/mtu"))))
	must(t, err)
	return mtu
}
