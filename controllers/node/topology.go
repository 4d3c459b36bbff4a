package node

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
)

// report writes the NodeNetwork's conditions TopologyReady, GatewayCurrent, PhysicalNetworksCurrent and SubnetsFull. gateway is what
// spec.gateway gets when it is the node's turn. TopologyReady is whether the node's rows are in the database, or the database's error.
// The agent, which writes the other conditions, includes it in Ready.
func (r *Reconciler) report(ctx context.Context, nn *networkv1alpha1.NodeNetwork, applied error,
	gateway networkv1alpha1.NodeGateway, users physicalUsers) error {
	patched := nn.DeepCopy()
	changed := r.setSubnetsFull(patched)
	changed = setGatewayCurrent(patched, gateway) || changed
	changed = users.setCondition(patched) || changed
	if want, ok := topologyReady(applied); ok {
		want.ObservedGeneration = nn.Generation
		changed = meta.SetStatusCondition(&patched.Status.Conditions, want) || changed
	}
	if !changed {
		return nil
	}
	return client.IgnoreNotFound(kind.WriteStatus(ctx, r.Client, nn, patched))
}

// setGatewayCurrent sets or removes the condition GatewayCurrent of a NodeNetwork, and reports whether that changed it.
func setGatewayCurrent(nn *networkv1alpha1.NodeNetwork, gateway networkv1alpha1.NodeGateway) (changed bool) {
	fields := facts.GatewayChange(nn.Spec.Gateway, gateway)
	if len(fields) == 0 {
		return meta.RemoveStatusCondition(&nn.Status.Conditions, networkv1alpha1.ConditionGatewayCurrent)
	}
	return meta.SetStatusCondition(&nn.Status.Conditions, metav1.Condition{Type: networkv1alpha1.ConditionGatewayCurrent,
		Status: metav1.ConditionFalse, Reason: networkv1alpha1.ReasonGatewayWaiting, ObservedGeneration: nn.Generation,
		Message: "the node keeps its former gateway until the changed " + strings.Join(fields, ", ") + " of spec.gateway works on other nodes"})
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
