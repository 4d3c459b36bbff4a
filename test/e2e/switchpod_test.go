//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// openVSwitch is the part whose pod runs Open vSwitch.
const openVSwitch part = "ovs"

// TestADeletedPodOfOpenVSwitchComesBack deletes a node's pod of Open vSwitch, which carries the node's own traffic on the userspace
// datapath. Without help, kubelet receives the next pod, and the node ends as before.
func TestADeletedPodOfOpenVSwitchComesBack(t *testing.T) {
	if !bed.bare {
		t.Skip("the lab's own Open vSwitch is no pod")
	}
	node := other(bed.central)
	here, there := bed.peerPod("switchpod-1", node), bed.peerPod("switchpod-2", other(node))
	bed.run(t, here, there)
	before := uplinkOf(t, node)
	old, err := bed.pod(t.Context(), openVSwitch, node)
	must(t, err)

	pods := startPings(t, there, here)
	host := startPingsTo(t, there, addressOfNode(t, node))
	deleted := time.Now()
	must(t, bed.api.Delete(t.Context(), old))
	eventually(t, 2*recoveryTimeout, func() error {
		fresh, err := bed.pod(t.Context(), openVSwitch, node)
		switch {
		case err != nil:
			return err
		case fresh.UID == old.UID:
			return fmt.Errorf("pod %s still exists", old.Name)
		}
		return errors.Join(notReady(fresh), nodeReady(t, node))
	})
	ready := time.Since(deleted)
	late := bed.peerPod("switchpod-3", node)
	bed.create(t, late)
	eventually(t, recoveryTimeout, func() error { return bed.reachEachOther(t.Context(), here, there, late) })
	logAway(t, "the node", host.stop(t))
	logAway(t, "its pod", pods.stop(t))
	t.Logf("the node and its next pod of Open vSwitch were Ready %s after the deletion", milliseconds(ready))
	eventually(t, recoveryTimeout, func() error { return same("the uplink", before, uplinkOf(t, node)) })
	bed.awaitConsistent(t)
}

// uplinkOf describes a node's bridge, with its addresses, and the guard of the link.
func uplinkOf(t *testing.T, node string) []string {
	t.Helper()
	lines := strings.Fields(bed.mustExec(t, node, "sh", "-c", "ip -o addr show dev "+bed.bridge()+" scope global | awk '{print $4}' | sort"))
	guard := bed.mustExec(t, node, "sh", "-c", "nft list chain netdev weft-guard eth0 | grep -c drop")
	return append(lines, strings.TrimSpace(guard), strings.TrimSpace(bed.mustExec(t, node, "ovs-vsctl", "port-to-br", "eth0")))
}

// logAway logs how long an address did not answer.
func logAway(t *testing.T, what string, results []pinged) {
	t.Helper()
	for _, r := range results {
		for _, gap := range r.Gaps {
			t.Logf("%s did not answer at %s for %s (%d pings)", what, r.To, milliseconds(gap.Until.Sub(gap.At)), gap.Lost)
		}
	}
}

// addressOfNode returns the InternalIP of a node.
func addressOfNode(t *testing.T, name string) string {
	t.Helper()
	var node corev1.Node
	must(t, bed.api.Get(t.Context(), types.NamespacedName{Name: name}, &node))
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	t.Fatalf("node %s has no InternalIP", name)
	return ""
}
