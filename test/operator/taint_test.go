package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// taints returns the keys of a Node's taints.
func (w *world) taints(node string) string {
	w.Helper()
	var keys []string
	for _, t := range w.node(node).Spec.Taints {
		keys = append(keys, t.Key)
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

// TestStartupTaintGoesWhenTheNodeIsReady checks that the startup taint is removed when the node's network is ready
// and not before. Other taints stay.
func TestStartupTaintGoesWhenTheNodeIsReady(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	startup, other := corev1.Taint{Key: networkv1alpha1.AgentNotReadyTaint, Effect: corev1.TaintEffectNoExecute},
		corev1.Taint{Key: "a.example/dedicated", Effect: corev1.TaintEffectNoSchedule}
	w.must(api.Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{startup, other}}}))
	w.nodeNetwork("n1")
	w.until(func() error { return unavailable("n1", corev1.ConditionTrue) })
	if got := w.taints("n1"); !strings.Contains(got, startup.Key) {
		t.Fatalf("before its network is ready the node has taints %s", got)
	}
	w.report("n1")
	w.until(func() error {
		if got := w.taints("n1"); strings.Contains(got, startup.Key) || !strings.Contains(got, other.Key) {
			return fmt.Errorf("taints are %s", got)
		}
		return nil
	})
	// one write may conflict with a change of the Node
	if got := len(slices.DeleteFunc(o.writes("/nodes/n1"), func(call string) bool {
		return !strings.Contains(call, "taints")
	})); got < 1 || got > 2 {
		t.Errorf("the taint was written %d times: %q", got, o.writes("/nodes/n1"))
	}

	// The node registers with the taint again, as after a kubelet reset, and is still ready.
	w.until(func() error { // retry if the operator has written its condition in between
		node := w.node("n1")
		before := client.MergeFromWithOptions(node.DeepCopy(), client.MergeFromWithOptimisticLock{})
		node.Spec.Taints = append(node.Spec.Taints, startup)
		return api.Patch(w.Context(), node, before)
	})
	w.until(func() error {
		var now corev1.Node
		w.must(api.Get(t.Context(), types.NamespacedName{Name: "n1"}, &now))
		if slices.ContainsFunc(now.Spec.Taints, func(t corev1.Taint) bool { return t.Key == startup.Key }) {
			return fmt.Errorf("taints are %v", now.Spec.Taints)
		}
		return nil
	})
}
