//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// endContainers ends what a reboot ends: all containers, their network namespaces and so their links. The node's own
// process namespace contains no processes of other machines.
const endContainers = `
for p in /proc/[0-9]*; do
	if grep -q kubepods $p/cgroup 2>/dev/null; then kill -9 ${p#/proc/} 2>/dev/null; fi
done
for p in $(busybox pidof containerd-shim-runc-v2); do kill -9 $p; done
for n in /run/netns/*; do
	[ -e $n ] || continue
	umount $n; rm -f $n
done
true`

// TestNodeReboot stops everything on a node and starts it again, because the lab cannot boot a machine a second
// time. The Open vSwitch database survives a reboot, and with it the interfaces of links that no longer exist.
func TestNodeReboot(t *testing.T) {
	here, there := bed.peerPod("reboot-1", "n1"), bed.peerPod("reboot-2", "n2")
	bed.run(t, here, there, bed.peerPod("reboot-3", "n1"))
	before, sandbox := addressesOf(here), sandboxOf(t, here)
	must(t, bed.api.Get(t.Context(), named(here.Name), here))

	up := []string{"ovsdb-server", "ovs-vswitchd", "ovn-controller", "containerd", "kubelet"}
	for _, d := range slices.Backward(up) {
		must(t, bed.Stop("n1", d, syscall.SIGKILL))
		t.Cleanup(func() { must(t, bed.Start("n1", d)) })
	}
	bed.mustExec(t, "n1", "sh", "-c", endContainers)
	for _, d := range up {
		must(t, bed.Start("n1", d))
	}

	took := eventually(t, 2*recoveryTimeout, func() error {
		if err := bed.api.Get(t.Context(), named(here.Name), here); err != nil {
			return err
		}
		if restarts(here) == 0 {
			return errors.New("kubelet has not seen that the pod ended")
		}
		return bed.reachEachOther(t.Context(), here, there)
	})
	t.Logf("the pods of the node were back %s after its start", milliseconds(took))
	if after := addressesOf(here); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the pod has addresses %v, before the reboot %v", after, before)
	}
	if sandboxOf(t, here) == sandbox {
		t.Errorf("the pod is in its old sandbox %s, so the test made no reboot", sandbox)
	}
	late := bed.peerPod("reboot-4", "n1")
	bed.run(t, late)
	bed.mustReach(t, late, here, there)
	eventually(t, convergence, func() error { return nodeReady(t, "n1") })
	bed.awaitConsistent(t)
}

// sandboxOf returns the sandbox that owns a pod's interface in Open vSwitch.
func sandboxOf(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	rows, err := bed.rows(t.Context(), p.Spec.NodeName, "ovs-vsctl", "Interface", "external_ids")
	must(t, err)
	for _, r := range rows {
		if ids := r.pairs("external_ids"); ids["iface-id"] == portOf(p) && ids["sandbox"] != "" {
			return ids["sandbox"]
		}
	}
	t.Fatalf("pod %s has no interface with a sandbox", p.Name)
	return ""
}
