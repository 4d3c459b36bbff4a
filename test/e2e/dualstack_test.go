//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

// conversion is what TestDualStack measured. It is written to _out/dualstack.json.
type conversion struct {
	RemovedMs   float64 `json:"removedMs"`   // from the removal of IPv6 until no network of it is in use
	ConvertedMs float64 `json:"convertedMs"` // from the edit until the nodes reach each other's pod subnets over IPv6
	Before      traffic `json:"before"`      // while two pods start, before the edit
	During      traffic `json:"during"`      // from the edit until the end of ConvertedMs
	After       traffic `json:"after"`       // while two pods start with both families
	Outdated    int32   `json:"outdated"`
}

// traffic is what happened to IPv4 for some time.
type traffic struct {
	Sent   int     `json:"sent"` // echo requests between the pods and to the outside
	Lost   int     `json:"lost"`
	Echoes uint64  `json:"echoes"` // of the TCP connection between the pods
	GapMs  float64 `json:"gapMs"`  // the longest gap of that connection
}

// ipv4Traffic counts the IPv4 traffic from a pod to another and to the outside while do runs.
func ipv4Traffic(t *testing.T, from, to *corev1.Pod, do func()) (sum traffic) {
	t.Helper()
	_, err := getJSON[flowState](t.Context(), bed, from, "/flow?reset")
	must(t, err)
	within := startPings(t, from, to)
	outside := awaitPings(t, "pod "+from.Name, bed.KubectlCommand(t.Context(), "-n", namespace, "exec", "-i", from.Name, "--", peerPath,
		"ping", "--every=20ms", "--to="+lab.Outside().IPv4.Addr().String()))
	began := time.Now()
	do()
	for _, p := range append(within.stop(t), outside.stop(t)...) {
		sum.Sent, sum.Lost = sum.Sent+p.Sent, sum.Lost+p.Lost
		for _, gap := range p.Gaps {
			t.Logf("to %s: %d lost from %s on, until %s", p.To, gap.Lost, gap.At.Sub(began), gap.Until.Sub(began))
		}
	}
	flow, err := getJSON[flowState](t.Context(), bed, from, "/flow")
	must(t, err)
	if sum.Echoes, sum.GapMs = flow.Echoes, flow.GapMs; !flow.Connected {
		t.Errorf("the connection has ended: %+v", flow)
	}
	return sum
}

// TestDualStack removes IPv6 from the lab's cluster and adds it again under IPv4 traffic. IPv4 must lose nothing, and new
// pods must reach each other and the outside over both families.
func TestDualStack(t *testing.T) {
	var done conversion
	t.Cleanup(func() { setIPv6(t, true) })
	began := time.Now()
	setIPv6(t, false)
	eventually(t, recoveryTimeout, func() error { return recreateOutdated(t) })
	done.RemovedMs = float64(time.Since(began).Milliseconds())

	server := bed.peerPod("ds-server", "n2")
	bed.run(t, server)
	old := bed.peerPod("ds-old", "n1", "--flow="+address(t, server, is4).String()+":7000")
	bed.run(t, old)
	for _, p := range []*corev1.Pod{server, old} {
		if len(addressesOf(p)) != 1 {
			t.Fatalf("pod %s of a cluster with IPv4 only has %v", p.Name, p.Status.PodIPs)
		}
	}
	bed.serveOn(t, lab.Outside().Name)
	eventually(t, 10*time.Second, func() error { return flowing(t.Context(), old) })
	rows := portRows(t, server, old)
	done.Before = ipv4Traffic(t, old, server, func() { bed.run(t, bed.peerPod("ds-before1", "n1"), bed.peerPod("ds-before2", "n2")) })
	done.During = ipv4Traffic(t, old, server, func() { done.ConvertedMs = becomeDualStack(t) })
	done.After = ipv4Traffic(t, old, server, func() { startDualStack(t) })
	if done.During.Lost > 0 {
		t.Errorf("IPv4 lost %d of %d echo requests", done.During.Lost, done.During.Sent)
	}
	if after := portRows(t, server, old); after != rows {
		t.Errorf("ports of running pods are\n%s, were\n%s", after, rows)
	}
	done.Outdated = outdatedPods(t, "e2e/ds-old", "e2e/ds-server")
	bed.mustReach(t, old, server)
	t.Logf("%+v", done)
	text, err := json.Marshal(done)
	must(t, err)
	folder := filepath.Join("..", "..", "_out")
	must(t, os.MkdirAll(folder, 0o755))
	must(t, os.WriteFile(filepath.Join(folder, "dualstack.json"), append(text, '\n'), 0o644))
}

// becomeDualStack adds IPv6, and returns how long it took until the nodes reach each other's management ports over IPv6.
func becomeDualStack(t *testing.T) (ms float64) {
	t.Helper()
	began := time.Now()
	setIPv6(t, true)
	eventually(t, recoveryTimeout, func() error { return haveIPv6(t) })
	for from, to := range map[string]string{"n1": "n2", "n2": "n1"} {
		var nn networkv1alpha1.NodeNetwork
		must(t, bed.api.Get(t.Context(), types.NamespacedName{Name: to}, &nn))
		address, _, _ := strings.Cut(string(nn.Spec.ManagementPort.Addresses[1]), "/")
		eventually(t, recoveryTimeout, func() error {
			_, err := bed.Exec(t.Context(), from, "busybox", "ping", "-c", "1", "-W", "1", address)
			return err
		})
	}
	return float64(time.Since(began).Milliseconds())
}

// startDualStack starts two pods, which must have both families, and reach each other and the outside over both.
func startDualStack(t *testing.T) {
	t.Helper()
	fresh, other := bed.peerPod("ds-fresh", "n1"), bed.peerPod("ds-other", "n2")
	bed.run(t, fresh, other)
	if len(addressesOf(fresh)) != 2 || len(addressesOf(other)) != 2 {
		t.Fatalf("new pods have %v and %v", fresh.Status.PodIPs, other.Status.PodIPs)
	}
	bed.mustReach(t, fresh, other)
	for _, to := range both(lab.Outside()) {
		bed.mustIn(t, fresh, "ping", "-c", "2", "-W", "2", to.String())
	}
}

// setIPv6 adds IPv6 to the ClusterNetwork, or removes it.
func setIPv6(t *testing.T, on bool) {
	t.Helper()
	must(t, poll.Slowly(cleanup(), recoveryTimeout, func() error { // also after the test
		var cn networkv1alpha1.ClusterNetwork
		if err := bed.api.Get(cleanup(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
			return err
		}
		patch := client.MergeFromWithOptions(cn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		pods := strings.Split(lab.ClusterCIDRs, ",")
		cn.Spec.ClusterNetwork = []networkv1alpha1.ClusterNetworkEntry{{CIDR: networkv1alpha1.CIDR(pods[0]), HostPrefix: 24}}
		if on {
			cn.Spec.ClusterNetwork = append(cn.Spec.ClusterNetwork,
				networkv1alpha1.ClusterNetworkEntry{CIDR: networkv1alpha1.CIDR(pods[1]), HostPrefix: 64})
		}
		return bed.api.Patch(cleanup(), &cn, patch)
	}))
}

// recreateOutdated deletes the pods that the status names, and returns nil when only the networks of IPv4 are in use.
func recreateOutdated(t *testing.T) error {
	t.Helper()
	var cn networkv1alpha1.ClusterNetwork
	must(t, bed.api.Get(t.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn))
	if cn.Status.OutdatedPods != nil {
		for _, outdated := range cn.Status.OutdatedPods.First {
			ns, name, _ := strings.Cut(outdated.Pod, "/")
			p := &corev1.Pod{}
			p.Namespace, p.Name = ns, name
			if err := client.IgnoreNotFound(bed.api.Delete(t.Context(), p, client.GracePeriodSeconds(1))); err != nil {
				return err
			}
		}
	}
	for _, n := range cn.Status.Networks {
		if strings.Contains(string(n.CIDR), ":") {
			return fmt.Errorf("network %s is %s: %s", n.CIDR, n.State, n.Message)
		}
	}
	return nil
}

// haveIPv6 returns nil when every node has a subnet of both families and is ready with it.
func haveIPv6(t *testing.T) error {
	t.Helper()
	var list networkv1alpha1.NodeNetworkList
	must(t, bed.api.List(t.Context(), &list))
	for _, nn := range list.Items {
		if len(nn.Spec.PodSubnets) != 2 || nn.Status.ObservedGeneration != nn.Generation {
			return fmt.Errorf("node %s has %v, and reported generation %d of %d", nn.Name, nn.Spec.PodSubnets,
				nn.Status.ObservedGeneration, nn.Generation)
		}
	}
	return nil
}

// portRows returns the ports of pods in the northbound database.
func portRows(t *testing.T, pods ...*corev1.Pod) string {
	t.Helper()
	ports, err := bed.ports(t.Context())
	must(t, err)
	var text strings.Builder
	for _, p := range pods {
		fmt.Fprintln(&text, ports[portOf(p)])
	}
	return text.String()
}

// outdatedPods checks that the status names pods as outdated, and returns how many there are.
func outdatedPods(t *testing.T, want ...string) (total int32) {
	t.Helper()
	eventually(t, recoveryTimeout, func() error {
		var cn networkv1alpha1.ClusterNetwork
		must(t, bed.api.Get(t.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn))
		text, err := json.Marshal(cn.Status.OutdatedPods)
		must(t, err)
		for _, name := range want {
			if !strings.Contains(string(text), `"`+name+`"`) {
				return fmt.Errorf("outdated pods are %s, without %s", text, name)
			}
		}
		total = cn.Status.OutdatedPods.Total
		return nil
	})
	return total
}
