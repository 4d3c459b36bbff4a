package node

import (
	"context"
	"errors"

	"github.com/weft-network/weft/pkg/facts"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// errPending is returned for a node that needs subnets before the networks are judged.
var errPending = errors.New("the networks of the ClusterNetwork are not judged yet")

// refuse records an event on a node whose address is contained in a network in force. It reports whether the node
// therefore gets no network. A node that has a network keeps it, because pods may use it.
func (r *Reconciler) refuse(ctx context.Context, node *corev1.Node, plan facts.Plan) (bool, error) {
	if plan.Pending {
		return false, nil
	}
	overlap := plan.OverlapOfNode(node)
	if overlap == "" {
		return false, nil
	}
	has, err := r.hasNetwork(ctx, node.Name)
	if err != nil {
		return false, err
	}
	if has {
		r.Events.Eventf(node, nil, corev1.EventTypeWarning, networkv1alpha1.ReasonNetworkOverlapsNodes,
			"AllocateSubnet", "%s: pods cannot reach it", overlap)
		return false, nil
	}
	overlap += ": the node gets no network"
	r.Events.Eventf(node, nil, corev1.EventTypeWarning, networkv1alpha1.ReasonNetworkOverlapsNodes, "AllocateSubnet", "%s", overlap)
	return true, errors.Join(r.vacateUnlessNetwork(ctx, node.Name), r.setCondition(ctx, node, nil, overlap))
}

// freeze leaves a node unchanged while no ClusterNetwork is in force. A node with a network keeps it, and its pods.
// The condition of other nodes explains why they have none.
func (r *Reconciler) freeze(ctx context.Context, node *corev1.Node, why string) error {
	nn := &networkv1alpha1.NodeNetwork{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: node.Name}, nn)
	if apierrors.IsNotFound(err) {
		return r.setCondition(ctx, node, nil, why)
	}
	if err != nil {
		return err
	}
	return r.setCondition(ctx, node, nn, "")
}

// hasNetwork reports whether a node has a NodeNetwork, or had one before a user deleted it.
func (r *Reconciler) hasNetwork(ctx context.Context, name string) (bool, error) {
	r.mu.Lock()
	had := len(r.assigned[name].PodSubnets) > 0
	r.mu.Unlock()
	if had {
		return true, nil
	}
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &networkv1alpha1.NodeNetwork{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
