//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

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
