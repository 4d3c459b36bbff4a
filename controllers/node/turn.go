package node

import (
	"context"

	"github.com/weft-network/weft/pkg/facts"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
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

// movers returns the nodes that wait for their turn to move.
func (r *Reconciler) movers(ctx context.Context, _ client.Object) []reconcile.Request {
	var list networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	var requests []reconcile.Request
	for _, name := range facts.WaitingToMove(list.Items) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return requests
}

// moveChanged passes changes on which the turns of other nodes depend.
func moveChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.NodeNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.NodeNetwork)
	return !ok || !ok2 || facts.MoveState(before) != facts.MoveState(after)
}
