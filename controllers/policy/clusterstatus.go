package policy

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
)

// report writes in a policy's status whether it is in force, and records an event if it is not.
func (r *Cluster) report(ctx context.Context, policy client.Object, read facts.ClusterPolicy, invalid, applied error) error {
	condition := metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: networkv1alpha1.ReasonAsExpected, ObservedGeneration: policy.GetGeneration(),
		Message: fmt.Sprintf("rules in force: %d of ingress, %d of egress", len(read.Ingress), len(read.Egress))}
	if text := r.unresolved(topology.ClusterPolicyNames(read)); text != "" {
		condition.Message += "; names without addresses: " + text
	}
	var refused *ovndb.RejectedError
	switch {
	case errors.As(applied, &refused):
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse,
			networkv1alpha1.ReasonDatabaseRefused, refused.Err.Error()
	case applied != nil: // the process or the connection ends; its successor writes the condition
		return nil
	case invalid != nil:
		condition.Status, condition.Reason = metav1.ConditionFalse, networkv1alpha1.ReasonInvalidSpec
		condition.Message = fmt.Sprintf("a rule that cannot be read accepts nothing, or denies everything: %v", invalid)
		if len(read.Ingress)+len(read.Egress) == 0 {
			condition.Message = fmt.Sprintf("no rule is in force: %v", invalid)
		}
	}
	updated := policy.DeepCopyObject().(client.Object)
	meta.SetStatusCondition(conditionsOf(updated), condition)
	if equality.Semantic.DeepEqual(conditionsOf(updated), conditionsOf(policy)) {
		return nil
	}
	if condition.Status == metav1.ConditionFalse {
		r.Events.Eventf(policy, nil, corev1.EventTypeWarning, condition.Reason, "Filter", "%s", condition.Message)
	}
	return client.IgnoreNotFound(kind.WriteStatus(ctx, r.Client, policy, updated))
}
