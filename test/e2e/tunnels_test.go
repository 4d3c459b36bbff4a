//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/test/poll"
)

// tunnelHost is the last byte of a node's addresses in the tests' networks of tunnels.
var tunnelHost = map[string]int{"n1": 11, "n2": 12}

// TestTunnelNetworks moves the tunnels of two nodes to one network and to two, and back, and checks by the tunnels' counters
// which of them carry packets between pods.
func TestTunnelNetworks(t *testing.T) {
	here := bed.peerPod("tn-here", "n1")
	there := []*corev1.Pod{bed.peerPod("tn-0", "n2"), bed.peerPod("tn-1", "n2"), bed.peerPod("tn-2", "n2"), bed.peerPod("tn-3", "n2")}
	bed.run(t, append(there, here)...)
	t.Cleanup(func() { setTunnelNetworks(t) })
	for node, host := range tunnelHost {
		for _, network := range []string{"198.18.1", "198.18.2"} {
			address := fmt.Sprintf("%s.%d/24", network, host)
			bed.mustExec(t, node, "busybox", "ip", "address", "add", address, "dev", bed.bridge())
			t.Cleanup(func() {
				_, _ = bed.Exec(cleanup(), node, "busybox", "ip", "address", "del", address, "dev", bed.bridge())
			})
		}
	}
	for _, networks := range [][]networkv1alpha1.CIDR{{"198.18.1.0/24"}, {"198.18.2.0/24", "198.18.1.0/24"}, nil} {
		t.Run(fmt.Sprint(networks), func(t *testing.T) {
			setTunnelNetworks(t, networks...)
			eventually(t, recoveryTimeout, func() error { return tunnelFrom(t, networks) })
			var tunnels []string // that carry packets to the pods of n2
			for _, p := range there {
				tunnels = append(tunnels, tunnelTo(t, p))
			}
			if slices.Sort(tunnels); len(networks) > 1 && tunnels[0] == tunnels[len(tunnels)-1] {
				t.Fatalf("all pods are behind %s", tunnels[0])
			}
			eventually(t, recoveryTimeout, func() error {
				before := sentTo(t, "n1")
				for _, p := range there {
					bed.mustReach(t, here, p)
				}
				after := sentTo(t, "n1")
				for remote := range after {
					if used := after[remote] > before[remote]; used != slices.Contains(tunnels, remote) {
						return fmt.Errorf("%d packets to %s, want packets to %v", after[remote]-before[remote], remote, tunnels)
					}
				}
				return nil
			})
		})
	}
}

// setTunnelNetworks sets spec.encapsulation.networks.
func setTunnelNetworks(t *testing.T, networks ...networkv1alpha1.CIDR) {
	t.Helper()
	must(t, poll.Slowly(cleanup(), recoveryTimeout, func() error { // also after the test
		var cn networkv1alpha1.ClusterNetwork
		if err := bed.api.Get(cleanup(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
			return err
		}
		patch := client.MergeFromWithOptions(cn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		cn.Spec.Encapsulation.Networks = networks
		return bed.api.Patch(cleanup(), &cn, patch)
	}))
}

// tunnelFrom returns nil when each node tunnels from its addresses in these networks, and reports to be ready.
func tunnelFrom(t *testing.T, networks []networkv1alpha1.CIDR) error {
	t.Helper()
	for node, host := range tunnelHost {
		var nn networkv1alpha1.NodeNetwork
		must(t, bed.api.Get(t.Context(), types.NamespacedName{Name: node}, &nn))
		have := append([]networkv1alpha1.IP{nn.Status.EncapIP}, nn.Status.FurtherEncapIPs...)
		var want []networkv1alpha1.IP
		for _, network := range networks {
			prefix, _, _ := strings.Cut(string(network), ".0/")
			want = append(want, networkv1alpha1.IP(fmt.Sprintf("%s.%d", prefix, host)))
		}
		if len(networks) == 0 && !strings.HasPrefix(string(have[0]), "198.18.") && len(have) == 1 {
			continue
		}
		if !slices.Equal(have, want) {
			return fmt.Errorf("node %s tunnels from %v, want %v", node, have, want)
		}
	}
	return nil
}

// tunnelTo returns the address behind which other nodes see a pod.
func tunnelTo(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	var nn networkv1alpha1.NodeNetwork
	must(t, bed.api.Get(t.Context(), types.NamespacedName{Name: p.Spec.NodeName}, &nn))
	var all []netip.Addr
	for _, text := range append([]networkv1alpha1.IP{nn.Status.EncapIP}, nn.Status.FurtherEncapIPs...) {
		a, err := text.Addr()
		must(t, err)
		all = append(all, a)
	}
	if tunnel := desired.TunnelOf(portOf(p), all); tunnel != "" {
		return tunnel
	}
	return all[0].String()
}

// sentTo counts the packets that a node has sent through its tunnels, by the address at their other end.
func sentTo(t *testing.T, node string) map[string]int {
	t.Helper()
	rows, err := bed.rows(t.Context(), node, "ovs-vsctl", "Interface", "type,options,statistics")
	must(t, err)
	sent := map[string]int{}
	for _, r := range rows {
		if r.text("type") == "geneve" {
			n, _ := strconv.Atoi(strings.TrimSuffix(r.pairs("statistics")["tx_packets"], ".0"))
			sent[r.pairs("options")["remote_ip"]] += n
		}
	}
	return sent
}
