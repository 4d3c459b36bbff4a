package node

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// turn returns the move of its link that the node may make. It permits a new move only after a read past the cache,
// which may lack a recent permission of another process.
func (r *Reconciler) turn(ctx context.Context, nn *networkv1alpha1.NodeNetwork, maxMoving int32) (string, error) {
	move, err := r.turnBy(ctx, r.Client, nn, maxMoving)
	if err != nil || move == nn.Spec.Gateway.Move || r.Live == nil {
		return move, err
	}
	return r.turnBy(ctx, r.Live, nn, maxMoving)
}

func (r *Reconciler) turnBy(ctx context.Context, reader client.Reader, nn *networkv1alpha1.NodeNetwork, maxMoving int32) (string, error) {
	if len(facts.WaitingToMove([]networkv1alpha1.NodeNetwork{*nn})) == 0 {
		return nn.Spec.Gateway.Move, nil
	}
	var list networkv1alpha1.NodeNetworkList
	if err := reader.List(ctx, &list); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list.Items {
		if written, ok := r.assigned[list.Items[i].Name]; ok && written.Gateway.Move != "" {
			list.Items[i].Spec.Gateway.Move = written.Gateway.Move // may not be in the cache yet
		}
	}
	return facts.Move(nn, list.Items, maxMoving), nil
}

// gatewayInTurn returns the gateway that the node's spec gets. A change is permitted only after a read past the cache, as in turn. The
// node counts as waiting from before the first read, so that movers has it whatever changes from then on.
func (r *Reconciler) gatewayInTurn(ctx context.Context, node *corev1.Node, nn *networkv1alpha1.NodeNetwork,
	wanted networkv1alpha1.NodeGateway, maxMoving int32) (networkv1alpha1.NodeGateway, error) {
	r.waitForGateway(node.Name, len(facts.GatewayChange(nn.Spec.Gateway, wanted)) > 0)
	next, err := r.gatewayBy(ctx, r.Client, node, nn, wanted, maxMoving)
	if err == nil && len(facts.GatewayChange(next, nn.Spec.Gateway)) > 0 && next.Unconfirmed && r.Live != nil {
		next, err = r.gatewayBy(ctx, r.Live, node, nn, wanted, maxMoving)
	}
	if err == nil && len(facts.GatewayChange(next, wanted)) == 0 {
		r.waitForGateway(node.Name, false)
	}
	return next, err
}

// waitForGateway records whether a node waits for its turn to get a changed gateway.
func (r *Reconciler) waitForGateway(node string, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !waits {
		delete(r.waitingForGateway, node)
		return
	}
	if r.waitingForGateway == nil {
		r.waitingForGateway = map[string]bool{}
	}
	r.waitingForGateway[node] = true
}

func (r *Reconciler) gatewayBy(ctx context.Context, reader client.Reader, node *corev1.Node, nn *networkv1alpha1.NodeNetwork,
	wanted networkv1alpha1.NodeGateway, maxMoving int32) (networkv1alpha1.NodeGateway, error) {
	var list networkv1alpha1.NodeNetworkList
	if changes := len(facts.GatewayChange(nn.Spec.Gateway, wanted)) > 0; changes && nn.Spec.Gateway.Mode != "" {
		if err := reader.List(ctx, &list); err != nil {
			return networkv1alpha1.NodeGateway{}, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list.Items {
		other := &list.Items[i]
		if written, ok := r.assigned[other.Name]; ok && len(facts.GatewayChange(written.Gateway, other.Spec.Gateway)) > 0 {
			other.Spec.Gateway, other.Generation = written.Gateway, other.Generation+1 // may not be in the cache yet
		}
	}
	return facts.NextGateway(nn, wanted, !facts.IsSilent(node), list.Items, maxMoving), nil
}

// movers returns the nodes that wait for their turn to move, or to get a changed gateway.
func (r *Reconciler) movers(ctx context.Context, _ client.Object) []reconcile.Request {
	var list networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	var requests []reconcile.Request
	for _, name := range facts.WaitingToMove(list.Items) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.waitingForGateway {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return requests
}

// moveChanged passes changes on which the turns of other nodes depend.
func moveChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return facts.MoveState(before) != facts.MoveState(after)
}
