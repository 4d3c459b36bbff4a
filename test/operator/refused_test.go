package operator

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// portReady returns an error if a Pod's condition of its port differs; with an empty reason the Pod must have no
// such condition.
func portReady(pod *corev1.Pod, status corev1.ConditionStatus, reason string) (*corev1.PodCondition, error) {
	var have corev1.Pod
	if err := view.Get(context.Background(), client.ObjectKeyFromObject(pod), &have); err != nil {
		return nil, err
	}
	for i := range have.Status.Conditions {
		if c := &have.Status.Conditions[i]; c.Type == networkv1alpha1.PodPortReady {
			if c.Status != status || c.Reason != reason {
				return nil, fmt.Errorf("pod %s has the condition %+v, want %s with reason %s", pod.Name, *c, status, reason)
			}
			return c, nil
		}
	}
	if reason == "" {
		return nil, nil
	}
	return nil, fmt.Errorf("pod %s has no condition of its port", pod.Name)
}

// refusals waits until the database has refused n more transactions.
func (o *operator) refusals(n int) {
	o.world.Helper()
	o.world.until(func() error {
		if have := len(o.refused()); have < n {
			return fmt.Errorf("%d transactions were refused, want %d", have, n)
		}
		return nil
	})
}

// TestRefusedPodReportsWhyAndDelaysNoOther creates a foreign port with the name of a pod's port. The database keeps
// names unique and refuses Weft's.
func TestRefusedPodReportsWhyAndDelaysNoOther(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.port(w.create("n1", "first")[0])
	w.nb.Ctl("--", "ls-add", "foreign", "--", "lsp-add", "foreign", "default_blocked")

	blocked := w.create("n1", "blocked")[0]
	var condition *corev1.PodCondition
	w.until(func() (err error) {
		condition, err = portReady(blocked, corev1.ConditionFalse, networkv1alpha1.ReasonDatabaseRefused)
		return err
	})
	w.says(condition.Message, "constraint violation", "Logical_Switch_Port", "default_blocked")

	var once corev1.Pod
	w.must(api.Get(t.Context(), client.ObjectKeyFromObject(blocked), &once))
	version := once.ResourceVersion

	before, refusedBefore := o.transactions(), len(o.refused())
	names := []string{}
	for i := range 20 {
		names = append(names, fmt.Sprintf("other-%d", i))
	}
	others := w.create("n1", names...)
	for _, pod := range others {
		w.port(pod)
	}
	o.settle()
	if got := o.transactions() - before; got > len(others)+1 {
		t.Errorf("%d transactions were written for %d pods", got, len(others))
	}
	o.refusals(refusedBefore + 3)
	const alone = 3 // operations of one port after the fence: the port, and its element of the switch's ports
	for _, operations := range o.refused()[refusedBefore:] {
		if operations > alone {
			t.Errorf("a transaction of %d operations was refused, so the pod made others fail too", operations)
		}
	}
	var now corev1.Pod
	w.must(api.Get(t.Context(), client.ObjectKeyFromObject(blocked), &now))
	if now.ResourceVersion != version {
		t.Errorf("the pod was written to again: %v", o.writes("/pods/blocked/status"))
	}
	if got := o.writes("/pods/other"); len(got) != 0 {
		t.Errorf("ordinary pods were written to: %v", got)
	}

	w.nb.Ctl("ls-del", "foreign")
	w.port(blocked)
	w.until(func() error {
		_, err := portReady(blocked, corev1.ConditionTrue, networkv1alpha1.ReasonAsExpected)
		return err
	})
	for _, pod := range others {
		_, err := portReady(pod, "", "")
		w.must(err)
	}
}

// TestRefusalOutlivesTheOperator checks that a restarted operator does not repeat a refusal that its predecessor has
// written, and clears it once.
func TestRefusalOutlivesTheOperator(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.port(w.create("n1", "first")[0])
	w.nb.Ctl("--", "ls-add", "foreign", "--", "lsp-add", "foreign", "default_blocked")
	blocked := w.create("n1", "blocked")[0]
	refused := func() error {
		_, err := portReady(blocked, corev1.ConditionFalse, networkv1alpha1.ReasonDatabaseRefused)
		return err
	}
	w.until(refused)
	o.stop()
	o = w.start()
	o.refusals(2)
	w.must(refused())
	if got := o.writes("/pods/blocked/status"); len(got) != 0 {
		t.Errorf("the same refusal was written again: %v", got)
	}
	o.stop()
	w.nb.Ctl("ls-del", "foreign")
	w.start()
	w.until(func() error {
		_, err := portReady(blocked, corev1.ConditionTrue, networkv1alpha1.ReasonAsExpected)
		return err
	})
}

// TestRefusedNodeReportsWhy creates a switch port with the name of a node's management port, which blocks all of the
// node's rows.
func TestRefusedNodeReportsWhy(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.port(w.create("n1", "first")[0])
	w.nb.Ctl("--", "ls-add", "foreign", "--", "lsp-add", "foreign", "k8s-n2")
	w.register("n2")
	topologyIs := func(node string, status metav1.ConditionStatus, reason string) func() error {
		return func() error {
			var nn networkv1alpha1.NodeNetwork
			if err := view.Get(context.Background(), types.NamespacedName{Name: node}, &nn); err != nil {
				return err
			}
			return condition(nn.Status.Conditions, networkv1alpha1.ConditionTopologyReady, reason, status)
		}
	}
	w.until(topologyIs("n1", metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected))
	w.until(topologyIs("n2", metav1.ConditionFalse, networkv1alpha1.ReasonDatabaseRefused))
	nn := w.report("n2")
	said := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionTopologyReady)
	if said == nil {
		t.Fatal("the agent's report removed the operator's condition")
	}
	w.says(said.Message, "constraint violation", "Logical_Switch_Port", "k8s-n2")
	o.refusals(len(o.refused()) + 3)
	if got := o.writes("/nodenetworks/n2/status"); len(got) > 2 {
		t.Errorf("the same refusal was written %d times: %v", len(got), got)
	}
	waiting := w.create("n2", "waiting")[0]
	w.port(w.create("n1", "second")[0])
	if _, err := w.findPort(waiting); !errors.Is(err, errAbsent) {
		t.Errorf("a pod has a port on a node without a switch: %v", err)
	}

	w.nb.Ctl("ls-del", "foreign")
	w.until(topologyIs("n2", metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected))
	w.port(waiting)
}
