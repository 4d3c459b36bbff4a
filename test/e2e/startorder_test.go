//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestAgentBeforeOpenVSwitch: an agent that starts while Open vSwitch's database does not answer says so, and recovers by
// itself. The server is only frozen: without it ovs-vswitchd forwards nothing in userspace, and kubelet has no API server.
func TestAgentBeforeOpenVSwitch(t *testing.T) {
	bystander := bed.peerPod("order-1", "n1")
	bed.run(t, bystander)
	send(t, "n1", "ovsdb-server", syscall.SIGSTOP)
	t.Cleanup(func() { send(t, "n1", "ovsdb-server", syscall.SIGCONT) })
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
	send(t, "n1", "ovsdb-server", syscall.SIGCONT)
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

// TestNodeLosesEverything: the agent, Open vSwitch and ovn-controller die together, and with them the node's own network.
func TestNodeLosesEverything(t *testing.T) {
	replacePod(t, agent, "n2") // kubelet delays the restart of a container that ended a short time ago
	bystander, other := bed.peerPod("order-1", "n2"), bed.peerPod("order-2", "n1")
	bed.run(t, bystander, other)
	for _, d := range []string{"ovn-controller", "ovs-vswitchd", "ovsdb-server"} {
		must(t, bed.Stop("n2", d, syscall.SIGKILL))
		t.Cleanup(func() { must(t, bed.Start("n2", d)) })
	}
	killProgram(t, "n2", "weft-agent")
	for _, d := range []string{"ovsdb-server", "ovs-vswitchd", "ovn-controller"} {
		must(t, bed.Start("n2", d))
	}
	late := bed.peerPod("order-3", "n2")
	bed.create(t, late)
	took := eventually(t, 2*recoveryTimeout, func() error { return bed.reachEachOther(t.Context(), bystander, other, late) })
	t.Logf("a new pod and the old ones reached each other %s after Open vSwitch was started", milliseconds(took))
	bed.awaitConsistent(t)
}

// send gives a signal to a daemon of a machine.
func send(t *testing.T, machine, daemon string, sig syscall.Signal) {
	t.Helper()
	init, err := bed.Init(machine)
	must(t, err)
	defer init.Close()
	must(t, init.Signal(daemon, sig))
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
