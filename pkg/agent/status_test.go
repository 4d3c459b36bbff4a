package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// awaitStatus waits until STATUS returns the code and the text. Code 0 is success.
func (n *node) awaitStatus(code uint, text string) {
	n.Helper()
	n.until("STATUS", func() error {
		err := n.ready()
		var coded *cniwire.Error
		if errors.As(err, &coded) && coded.Code == code && strings.Contains(coded.Msg, text) || err == nil && code == 0 {
			return nil
		}
		return fmt.Errorf("want code %d, %q: %w", code, text, err)
	})
}

// C9 and C12: STATUS fails with the true reason. Code 51 also means that existing pods are affected.
func TestStatusNamesWhatIsDown(t *testing.T) {
	n := newNode(t)
	n.options = func(o *agent.Options) { o.StatusGrace = time.Millisecond }
	n.ovs.RunController()
	n.startAgent()
	n.awaitStatus(cniwire.CodeNotAvailable, "the operator has not made NodeNetwork node1")
	n.join()
	n.awaitStatus(0, "")
	for _, part := range []struct {
		name      string
		kill, run func()
		text      string
	}{
		{"ovn-controller", n.ovs.KillController, n.ovs.RunController, "ovn-controller does not answer"},
		{"ovs-vswitchd", n.ovs.KillSwitch, n.ovs.RunSwitch, "ovs-vswitchd does not answer"},
		{"the southbound database", n.central.SB.Kill, n.central.SB.Run, "southbound database is not connected"},
		{"Open vSwitch's database", n.ovs.Kill, n.ovs.Run, "Open vSwitch does not answer"},
	} {
		part.kill()
		n.awaitStatus(cniwire.CodeLimited, part.text)
		if part.name == "ovs-vswitchd" {
			n.awaitCondition(networkv1alpha1.ConditionOVSReady, metav1.ConditionFalse)
		}
		part.run()
		n.awaitStatus(0, "")
	}
}

// A short absence of ovn-controller or the southbound database does not make the node unready. An ADD waits for it.
func TestStatusWhilePartsAreReplaced(t *testing.T) {
	n := readyNodeWith(t, func(o *agent.Options) { o.StatusGrace = time.Hour })
	n.awaitStatus(0, "")
	for name, part := range map[string]struct{ kill, run func() }{
		"the southbound database": {n.central.SB.Kill, n.central.SB.Run},
		"ovn-controller":          {n.ovs.KillController, n.ovs.RunController},
	} {
		part.kill()
		n.awaitCondition(networkv1alpha1.ConditionControllerReady, metav1.ConditionFalse) // the agent has noticed
		if err := n.ready(); err != nil {
			t.Errorf("STATUS while %s is replaced: %v", name, err)
		}
		part.run()
		n.awaitCondition(networkv1alpha1.ConditionControllerReady, metav1.ConditionTrue)
		n.awaitStatus(0, "")
	}
}

// On a full node a new pod would get no address, but a pod with an address can be added, and CHECK succeeds.
func TestStatusOfAFullNode(t *testing.T) {
	n := readyNode(t)
	n.edit(func(spec *networkv1alpha1.NodeNetworkSpec) {
		spec.PodSubnets[0] = "10.244.1.0/29" // without network, router, host and broadcast: 4 addresses for pods
	})
	var pods []pod
	for slot := 3; slot < 7; slot++ {
		n.awaitStatus(0, "")
		pods = append(pods, n.newPod(fmt.Sprintf("web-%d", slot), slot))
		n.givePort(pods[len(pods)-1])
	}
	n.awaitStatus(cniwire.CodeNotAvailable, "no address is left in [10.244.1.0/29 fd00:10:244:1::/64]: 4 of 4 are used")
	result := n.add(pods[0])
	n.wantTraffic(pods[0])
	if err := n.check(pods[0], result); err != nil {
		t.Errorf("CHECK on a full node: %v", err)
	}
	n.takePort(pods[3])
	n.awaitStatus(0, "")
}

// The agent corrects a status that differs from what it finds. The cause may be a write whose reply was lost, or the
// operator with a condition that Ready depends on.
func TestStatusIsWhatIsFound(t *testing.T) {
	n := readyNode(t)
	write := func(c metav1.Condition) {
		t.Helper()
		n.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			nn := &networkv1alpha1.NodeNetwork{}
			if err := api.Get(t.Context(), types.NamespacedName{Name: nodeName}, nn); err != nil {
				return err
			}
			meta.SetStatusCondition(&nn.Status.Conditions, c)
			return api.Status().Update(t.Context(), nn)
		}))
	}
	ovs, topology := networkv1alpha1.ConditionOVSReady, networkv1alpha1.ConditionTopologyReady
	write(metav1.Condition{Type: ovs, Status: metav1.ConditionFalse, Reason: networkv1alpha1.ReasonDatabaseUnavailable})
	n.awaitCondition(ovs, metav1.ConditionTrue)
	write(metav1.Condition{Type: topology, Status: metav1.ConditionFalse, Reason: networkv1alpha1.ReasonDatabaseRefused})
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionFalse)
	write(metav1.Condition{Type: topology, Status: metav1.ConditionTrue, Reason: networkv1alpha1.ReasonAsExpected})
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
}

// The first STATUS of a new agent waits for its connections, so that the replacement of an agent makes no node unready.
func TestStatusWhileAnAgentIsReplaced(t *testing.T) {
	n := readyNode(t)
	for range 3 {
		n.stopAgent()
		n.startAgent()
		if err := n.ready(); err != nil {
			t.Errorf("the first STATUS: %v", err)
		}
	}
}

// A pod does not start without a copy of its record. While no copy can be written, the node is not ready for pods, and the condition and
// the pod's event have the reason.
func TestTheCopiesHaveNoSpace(t *testing.T) {
	n := readyNode(t)
	folder := filepath.Join(filepath.Dir(n.socket()), "attachments")
	n.must(os.MkdirAll(folder, 0o700))
	n.must(unix.Mount("tmpfs", folder, "tmpfs", 0, "size=4k,nr_inodes=1"))
	full := true
	end := func() {
		if full {
			n.must(unix.Unmount(folder, 0))
		}
		full = false
	}
	t.Cleanup(end)
	web := n.newPod("web", 5)
	n.givePort(web)
	answers, _ := n.startAdd(web)
	if a := <-answers; a.err == nil || !strings.Contains(a.err.Error(), "no space left on device (stage link, of weft-agent,") {
		t.Errorf("ADD: %v", a.err)
	}
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionFalse)
	n.awaitMessage(networkv1alpha1.ConditionCNIReady, "copy of the record: ")
	end()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	n.add(web)
	n.wantTraffic(web)
}
