package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
)

// ByClaim is the index of NodeNetworks by the values that no two of them may share.
const ByClaim = "nodeClaim"

// IndexByClaim is the function of the index ByClaim.
func IndexByClaim(o client.Object) []string {
	nn, ok := o.(*networkv1alpha1.NodeNetwork)
	if !ok {
		return nil
	}
	return facts.Claims(nn)
}

// yields reports whether an older NodeNetwork has the same ID or subnet. That happens when a former leader's last
// write reaches the API server after this process has chosen. The younger NodeNetwork is deleted. If that is the
// other one, its node is enqueued.
func (r *Reconciler) yields(ctx context.Context, nn *networkv1alpha1.NodeNetwork) (bool, error) {
	for _, claim := range facts.Claims(nn) {
		yields, err := r.yieldsIn(ctx, nn, claim)
		if yields || err != nil {
			return yields, err
		}
	}
	return false, nil
}

func (r *Reconciler) yieldsIn(ctx context.Context, nn *networkv1alpha1.NodeNetwork, claim string) (bool, error) {
	var list networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &list, client.MatchingFields{ByClaim: claim}); err != nil {
		return false, err
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == nn.Name {
			continue
		}
		if facts.Older(other, nn) {
			r.Events.Eventf(nn, other, corev1.EventTypeWarning, "NodeCollision", "Replace",
				"NodeNetwork %s has the same ID or subnet and is older: this one is replaced", other.Name)
			return true, nil
		}
		r.Triggers.Enqueue(topology.KindNode, types.NamespacedName{Name: other.Name})
	}
	return false, nil
}

// disown forgets the assignment of a node, because it belongs to another node.
func (r *Reconciler) disown(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.assigned, name)
}
