//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestStartupTaint checks that the operator removes the startup taint, with which the lab's kubelets register, when
// the node's network is ready, and removes it again if it is restored.
func TestStartupTaint(t *testing.T) {
	for _, name := range []string{"n1", "n2"} {
		node := &corev1.Node{}
		must(t, bed.api.Get(t.Context(), types.NamespacedName{Name: name}, node))
		if slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == networkv1alpha1.AgentNotReadyTaint
		}) {
			t.Errorf("node %s is ready, but has taints %v", name, node.Spec.Taints)
		}
	}
	node := &corev1.Node{}
	key := types.NamespacedName{Name: "n2"}
	_, err := bed.Kubectl(t.Context(), "taint", "node", key.Name, networkv1alpha1.AgentNotReadyTaint+"=true:NoSchedule")
	must(t, err)
	took := eventually(t, 10*time.Second, func() error {
		must(t, bed.api.Get(t.Context(), key, node))
		if slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == networkv1alpha1.AgentNotReadyTaint
		}) {
			return fmt.Errorf("node n2 has taints %v", node.Spec.Taints)
		}
		return nil
	})
	t.Logf("taint removed after %s", milliseconds(took))
}
