package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Reasons of the Node condition NetworkUnavailable.
const (
	reasonReady    = "WeftReady"
	reasonNotReady = "WeftNotReady"
)

// setCondition sets the Node's condition NetworkUnavailable from its NodeNetwork. While it is true, Kubernetes taints
// the node, so that no pod is scheduled there.
func (r *Reconciler) setCondition(ctx context.Context, node *corev1.Node, nn *networkv1alpha1.NodeNetwork, trouble string) error {
	want := networkUnavailable(nn, trouble)
	for i, have := range node.Status.Conditions {
		if have.Type != want.Type {
			continue
		}
		if have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
			return nil
		}
		if have.Status == want.Status {
			want.LastTransitionTime = have.LastTransitionTime
		}
		patched := node.DeepCopy()
		patched.Status.Conditions[i] = want
		return r.Client.Status().Patch(ctx, patched, client.StrategicMergeFrom(node))
	}
	patched := node.DeepCopy()
	patched.Status.Conditions = append(patched.Status.Conditions, want)
	return r.Client.Status().Patch(ctx, patched, client.StrategicMergeFrom(node))
}

// networkUnavailable computes the condition.
func networkUnavailable(nn *networkv1alpha1.NodeNetwork, trouble string) corev1.NodeCondition {
	now := metav1.Now()
	c := corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: reasonNotReady,
		LastHeartbeatTime: now, LastTransitionTime: now, Message: trouble}
	if nn == nil {
		return c
	}
	ready := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionReady)
	switch {
	case ready == nil:
		c.Message = "weft-agent has not reported yet"
	case ready.Status == metav1.ConditionTrue:
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reasonReady, "the pod network is ready"
	default:
		c.Message = ready.Message
	}
	return c
}
