package node

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovndb"
)

// report writes the NodeNetwork's conditions TopologyReady and SubnetsFull. TopologyReady is whether the node's rows are in
// the database, or the database's error. The agent, which writes the other conditions, includes it in Ready.
func (r *Reconciler) report(ctx context.Context, nn *networkv1alpha1.NodeNetwork, applied error) error {
	patched := nn.DeepCopy()
	changed := r.setSubnetsFull(patched)
	if want, ok := topologyReady(applied); ok {
		want.ObservedGeneration = nn.Generation
		changed = meta.SetStatusCondition(&patched.Status.Conditions, want) || changed
	}
	if !changed {
		return nil
	}
	// A merge patch replaces the list. The resource version makes it fail if it does not include the agent's last
	// write.
	patch := client.MergeFromWithOptions(nn, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, patched, patch))
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// topologyReady returns the condition. ok is false until the outcome is known.
func topologyReady(applied error) (c metav1.Condition, ok bool) {
	c = metav1.Condition{Type: networkv1alpha1.ConditionTopologyReady}
	var refused *ovndb.RejectedError
	switch {
	case applied == nil:
		c.Status, c.Reason = metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected
	case errors.As(applied, &refused):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, networkv1alpha1.ReasonDatabaseRefused, refused.Err.Error()
	default:
		return c, false
	}
	return c, true
}
