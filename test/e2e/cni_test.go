//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const tombstoneDir = "/run/weft/tombstones"

// tombstones lists the records of DEL calls made while no agent ran.
func tombstones(t *testing.T, node string) []string {
	t.Helper()
	return strings.Fields(bed.mustExec(t, node, "sh", "-c", "ls "+tombstoneDir+" 2>/dev/null || true"))
}

// agentOf returns the process ID of a node's agent; empty if none runs.
func agentOf(t *testing.T, node string) string {
	t.Helper()
	return strings.TrimSpace(bed.mustExec(t, node, "sh", "-c", "busybox pidof weft-agent || true"))
}

// killAgents kills each agent that starts, while the file exists.
const killAgents = `touch /run/e2e-agent-down
while test -e /run/e2e-agent-down; do
  for p in $(busybox pidof weft-agent); do busybox kill -9 $p; done
  busybox usleep 100000
done`

// keepAgentDown kills a node's agent, and each agent that kubelet starts until the returned function is called.
func keepAgentDown(t *testing.T, node string) (release func()) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := bed.Exec(cleanup(), node, "sh", "-c", killAgents)
		ended <- err
	}()
	release = sync.OnceFunc(func() {
		bed.mustExec(t, node, "rm", "-f", "/run/e2e-agent-down")
		must(t, <-ended)
	})
	t.Cleanup(release)
	eventually(t, readyTimeout, func() error {
		if pid := agentOf(t, node); pid != "" {
			return errors.New("the agent still runs as process " + pid)
		}
		return nil
	})
	return release
}

// TestPodsEndWhileTheAgentIsDown covers failure mode C1. While the agent is down, kubelet must still be
// able to remove pods. When the agent is back, nothing of them may remain.
func TestPodsEndWhileTheAgentIsDown(t *testing.T) {
	stays := bed.peerPod("stays", "n1")
	ends := []*corev1.Pod{bed.peerPod("ends-1", "n1"), bed.peerPod("ends-2", "n1"), bed.peerPod("ends-3", "n1")}
	bed.run(t, append(ends, stays)...)
	release := keepAgentDown(t, "n1")
	for _, p := range ends {
		must(t, bed.api.Delete(t.Context(), p, client.GracePeriodSeconds(1)))
	}
	took := eventually(t, readyTimeout, func() error {
		for _, p := range ends {
			if err := bed.api.Get(t.Context(), named(p.Name), &corev1.Pod{}); client.IgnoreNotFound(err) != nil || err == nil {
				return errors.Join(fmt.Errorf("pod %s still exists", p.Name), err)
			}
		}
		return nil
	})
	noted := tombstones(t, "n1")
	if len(noted) < len(ends) { // other pods of the node may end too
		t.Errorf("tombstones are %v, want one for each of the %d pods", noted, len(ends))
	}
	t.Logf("3 pods were gone after %s; there are %d tombstones", milliseconds(took), len(noted))
	release()
	eventually(t, 4*time.Minute, func() error { // kubelet waits longer after each kill
		if left := tombstones(t, "n1"); len(left) != 0 {
			return fmt.Errorf("tombstones remain: %v", left)
		}
		return nodeReady(t, "n1")
	})
	bed.awaitConsistent(t)
	after := bed.peerPod("after", "n1")
	bed.run(t, after)
	bed.mustReach(t, stays, after)
}

// strayAdd attaches a sandbox that the runtime does not have to a pod that it has, as after a runtime lost a
// sandbox.
const strayAdd = `
ip netns add stray
echo '{"cniVersion":"1.0.0","name":"weft","type":"weft-cni","socket":"/run/weft/cni.sock"}' |
CNI_COMMAND=ADD CNI_CONTAINERID=stray CNI_NETNS=/run/netns/stray CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin \
CNI_ARGS="K8S_POD_NAMESPACE=$1;K8S_POD_NAME=$2;K8S_POD_UID=$3" /opt/cni/bin/weft-cni`

// TestASandboxThatTheRuntimeLost covers failure modes C3 and C4. No DEL will ever arrive for the lost sandbox. The
// agent finds it by comparing with containerd's list, but only after the pod is gone.
func TestASandboxThatTheRuntimeLost(t *testing.T) {
	lost, stays := bed.peerPod("lost", "n1"), bed.peerPod("stays", "n1")
	bed.run(t, lost, stays)
	t.Cleanup(func() { _, _ = bed.Exec(cleanup(), "n1", "ip", "netns", "del", "stray") })
	bed.mustExec(t, "n1", "sh", "-c", strayAdd, "sh", lost.Namespace, lost.Name, string(lost.UID))
	if sandbox := sandboxOf(t, lost); sandbox != "stray" {
		t.Fatalf("the pod's interface belongs to sandbox %s, want the newest sandbox", sandbox)
	}
	bed.remove(t, lost)
	took := eventually(t, 4*time.Minute, func() error { return bed.consistent(t.Context()) })
	t.Logf("the interface was removed %s after its pod", milliseconds(took))
	if took < time.Minute {
		t.Error("the interface was removed immediately, want a delay until the agent reads the runtime's list")
	}
	bed.mustReach(t, stays)
}
