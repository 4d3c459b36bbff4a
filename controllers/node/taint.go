package node

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
)

// removeTaint removes the startup taint from a node whose network is ready. A conflict means that the Node has
// changed since. It is not a failure, but requires a retry.
func (r *Reconciler) removeTaint(ctx context.Context, node *corev1.Node, nn *networkv1alpha1.NodeNetwork) error {
	if startupTaints(node) == 0 || !meta.IsStatusConditionTrue(nn.Status.Conditions, networkv1alpha1.ConditionReady) {
		return nil
	}
	patched := node.DeepCopy()
	patched.Spec.Taints = slices.DeleteFunc(patched.Spec.Taints, isStartupTaint)
	return client.IgnoreNotFound(kind.Write(ctx, r.Client, node, patched))
}

func isStartupTaint(t corev1.Taint) bool { return t.Key == networkv1alpha1.AgentNotReadyTaint }

// startupTaints counts the taints that removeTaint would remove.
func startupTaints(node *corev1.Node) int {
	count := 0
	for _, t := range node.Spec.Taints {
		if isStartupTaint(t) {
			count++
		}
	}
	return count
}
