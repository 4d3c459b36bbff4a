//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestAgentBeforeOpenVSwitch starts an agent while Open vSwitch's database does not answer. The agent reports that
// and recovers without help. The server is only frozen: without it ovs-vswitchd forwards nothing in userspace, and
// kubelet cannot reach the API server.
func TestAgentBeforeOpenVSwitch(t *testing.T) {
	bystander := bed.peerPod("order-1", "n1")
	bed.run(t, bystander)
	bed.signal(t, "n1", switchDatabase, syscall.SIGSTOP)
	t.Cleanup(func() { bed.signal(t, "n1", switchDatabase, syscall.SIGCONT) })
	old, err := bed.pod(t.Context(), agent, "n1")
	must(t, err)
	must(t, bed.api.Delete(t.Context(), old))
	eventually(t, readyTimeout, func() error {
		fresh, err := bed.pod(t.Context(), agent, "n1")
		switch {
		case err != nil:
			return err
		case fresh.UID == old.UID || len(fresh.Status.ContainerStatuses) == 0 || fresh.Status.ContainerStatuses[0].State.Running == nil:
			return errors.New("the new agent does not run")
		case notReady(fresh) == nil:
			return errors.New("the new agent is Ready without Open vSwitch")
		}
		return saysOVSReady(t, "n1", false)
	})
	bed.signal(t, "n1", switchDatabase, syscall.SIGCONT)
	took := eventually(t, recoveryTimeout, func() error {
		fresh, err := bed.pod(t.Context(), agent, "n1")
		if err != nil {
			return err
		}
		return errors.Join(notReady(fresh), saysOVSReady(t, "n1", true))
	})
	t.Logf("the agent was Ready %s after Open vSwitch's database answered", milliseconds(took))
	late := bed.peerPod("order-2", "n1")
	bed.run(t, late)
	bed.mustReach(t, bystander, late)
	bed.awaitConsistent(t)
}

// TestNodeLosesEverything kills the agent, Open vSwitch and ovn-controller together, and with them the node's own
// network.
func TestNodeLosesEverything(t *testing.T) {
	replacePod(t, agent, "n2") // kubelet delays the restart of a container that ended recently
	bystander, other := bed.peerPod("order-1", "n2"), bed.peerPod("order-2", "n1")
	bed.run(t, bystander, other)
	loseSwitch(t, "n2")
	late := bed.peerPod("order-3", "n2")
	bed.create(t, late)
	took := eventually(t, 2*recoveryTimeout, func() error { return bed.reachEachOther(t.Context(), bystander, other, late) })
	t.Logf("a new pod and the old ones reached each other %s after Open vSwitch was started", milliseconds(took))
	bed.awaitConsistent(t)
}

// TestNodeLosesItsDatabase deletes the file of a node's Open vSwitch database and kills the agent, Open vSwitch and
// ovn-controller together, so that no process has the node's interfaces in memory. Running pods keep all their addresses.
func TestNodeLosesItsDatabase(t *testing.T) {
	replacePod(t, agent, "n2")
	podNetwork(t, "lost-blue", networkv1alpha1.TopologyLayer2, networkv1alpha1.NetworkSubnet{CIDR: "10.61.0.0/24"})
	bystander, other := requesting("lost-1", "n2", "lost-blue"), requesting("lost-2", "n1", "lost-blue")
	bed.run(t, bystander, other)
	before, err := networkStatus(t, bystander)
	must(t, err)
	sandbox := sandboxOf(t, bystander)
	bed.mustExec(t, "n2", "rm", bed.switchFile("n2").path)
	loseSwitch(t, "n2")
	late := bed.peerPod("lost-3", "n2")
	bed.create(t, late)
	took := eventually(t, 2*recoveryTimeout, func() error {
		return errors.Join(bed.reachEachOther(t.Context(), bystander, other, late), reachOn(t, other, bystander, "net1"))
	})
	t.Logf("a new pod and the old ones reached each other %s after Open vSwitch was started", milliseconds(took))
	after, err := networkStatus(t, bystander)
	must(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("network-status (-before +after):\n%s", diff)
	}
	if sandboxOf(t, bystander) != sandbox {
		t.Error("the pod is in another sandbox")
	}
	for _, p := range []*corev1.Pod{bystander, other} { // what consistent expects has no secondary networks
		bed.remove(t, p)
	}
	bed.awaitConsistent(t)
}

// loseSwitch kills the agent, Open vSwitch and ovn-controller of a node. kubelet restarts them in a bare lab.
// Otherwise the lab restarts them once all have ended.
func loseSwitch(t *testing.T, node string) {
	t.Helper()
	all := []daemon{controller, vswitchd, switchDatabase}
	for _, d := range all {
		if bed.bare {
			bed.signal(t, node, d, syscall.SIGKILL)
			continue
		}
		must(t, bed.Stop(node, d.name, syscall.SIGKILL))
		t.Cleanup(func() { must(t, bed.Start(node, d.name)) })
	}
	signalProgram(t, node, syscall.SIGKILL, "weft-agent", "")
	if bed.bare {
		return
	}
	for _, d := range slices.Backward(all) {
		must(t, bed.Start(node, d.name))
	}
}

func saysOVSReady(t *testing.T, node string, want bool) error {
	var nn networkv1alpha1.NodeNetwork
	if err := bed.api.Get(t.Context(), types.NamespacedName{Name: node}, &nn); err != nil {
		return err
	}
	for _, condition := range []string{networkv1alpha1.ConditionOVSReady, networkv1alpha1.ConditionReady} {
		if have := meta.IsStatusConditionTrue(nn.Status.Conditions, condition); have != want {
			return fmt.Errorf("NodeNetwork %s: %s is %t", node, condition, have)
		}
	}
	return nil
}
