//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const tombstoneDir = "/run/weft/tombstones"

// tombstones are the files of DELs that no agent was there for.
func tombstones(t *testing.T, node string) []string {
	t.Helper()
	return strings.Fields(bed.mustExec(t, node, "sh", "-c", "ls "+tombstoneDir+" 2>/dev/null || true"))
}

// agentOf is the process of a node's agent; empty if none runs.
func agentOf(t *testing.T, node string) string {
	t.Helper()
	return strings.TrimSpace(bed.mustExec(t, node, "sh", "-c", "busybox pidof weft-agent || true"))
}

// keepAgentDown kills a node's agent until kubelet waits for a while before it starts the next one.
func keepAgentDown(t *testing.T, node string) {
	t.Helper()
	for range 5 {
		bed.mustExec(t, node, "sh", "-c", "for p in $(busybox pidof weft-agent); do busybox kill -9 $p; done; true")
		eventually(t, readyTimeout, func() error {
			if pid := agentOf(t, node); pid != "" {
				return errors.New("the agent is still " + pid)
			}
			return nil
		})
		err := poll(t.Context(), 8*time.Second, func() error {
			if agentOf(t, node) == "" {
				return errors.New("no agent")
			}
			return nil
		})
		if err != nil {
			return
		}
	}
	t.Fatal("kubelet starts the agent at once however often it ends")
}

// TestPodsEndWhileTheAgentIsDown: C1. kubelet must get rid of the pods, one whose network namespace is there and one whose agent never
// comes back to it, and nothing of them may be left when the agent is back.
func TestPodsEndWhileTheAgentIsDown(t *testing.T) {
	stays := bed.peerPod("stays", "n1")
	ends := []*corev1.Pod{bed.peerPod("ends-1", "n1"), bed.peerPod("ends-2", "n1"), bed.peerPod("ends-3", "n1")}
	bed.run(t, append(ends, stays)...)
	keepAgentDown(t, "n1")
	for _, p := range ends {
		must(t, bed.api.Delete(t.Context(), p, client.GracePeriodSeconds(1)))
	}
	took := eventually(t, readyTimeout, func() error {
		for _, p := range ends {
			if err := bed.api.Get(t.Context(), named(p.Name), &corev1.Pod{}); client.IgnoreNotFound(err) != nil || err == nil {
				return errors.Join(fmt.Errorf("pod %s is still there", p.Name), err)
			}
		}
		return nil
	})
	noted, agent := tombstones(t, "n1"), agentOf(t, "n1")
	if agent == "" && len(noted) < len(ends) { // other pods of the node may end as well
		t.Errorf("tombstones are %v, want one for each of %d pods", noted, len(ends))
	}
	t.Logf("3 pods were gone after %s; the agent's process is %q, tombstones are %d", milliseconds(took), agent, len(noted))
	if agent != "" {
		t.Error("the agent was back before the pods were gone: nothing is proved")
	}
	eventually(t, recoveryTimeout, func() error {
		if left := tombstones(t, "n1"); len(left) != 0 {
			return fmt.Errorf("tombstones are left: %v", left)
		}
		return nodeReady(t, "n1")
	})
	bed.awaitConsistent(t)
	after := bed.peerPod("after", "n1")
	bed.run(t, after)
	bed.mustReach(t, stays, after)
}

// strayAdd attaches a sandbox that the runtime does not know, of a pod that it does: as one whose runtime lost it.
const strayAdd = `
ip netns add stray
echo '{"cniVersion":"1.0.0","name":"weft","type":"weft-cni","socket":"/run/weft/cni.sock"}' |
CNI_COMMAND=ADD CNI_CONTAINERID=stray CNI_NETNS=/run/netns/stray CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin \
CNI_ARGS="K8S_POD_NAMESPACE=$1;K8S_POD_NAME=$2;K8S_POD_UID=$3" /opt/cni/bin/weft-cni`

// TestASandboxThatTheRuntimeLost: C3 and C4. No DEL will ever come for it; the agent finds out by containerd's list, and not while the
// pod lives.
func TestASandboxThatTheRuntimeLost(t *testing.T) {
	lost, stays := bed.peerPod("lost", "n1"), bed.peerPod("stays", "n1")
	bed.run(t, lost, stays)
	t.Cleanup(func() { _, _ = bed.Exec(cleanup(), "n1", "ip", "netns", "del", "stray") })
	bed.mustExec(t, "n1", "sh", "-c", strayAdd, "sh", lost.Namespace, lost.Name, string(lost.UID))
	if sandbox := sandboxOf(t, lost); sandbox != "stray" {
		t.Fatalf("the pod's interface is of sandbox %s: the newest did not win", sandbox)
	}
	bed.remove(t, lost)
	took := eventually(t, 4*time.Minute, func() error { return bed.consistent(t.Context()) })
	t.Logf("the interface was gone %s after its pod", milliseconds(took))
	if took < time.Minute {
		t.Error("it went at once: the runtime's list is older than that")
	}
	bed.mustReach(t, stays)
}
