package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/topology"
)

// ByClaim is the index of NodeNetworks by what no two of them may both have.
const ByClaim = "nodeClaim"

// IndexByClaim is its function.
func IndexByClaim(o client.Object) []string {
	nn, ok := o.(*networkv1alpha1.NodeNetwork)
	if !ok {
		return nil
	}
	return topology.Claims(nn)
}

// yields reports whether a NodeNetwork has an ID or a subnet that an older one has too: a former leader's last write can reach the API server when
// this process has chosen already. The younger one goes; if that is the other, its node is asked for.
func (r *Reconciler) yields(ctx context.Context, nn *networkv1alpha1.NodeNetwork) (bool, error) {
	for _, claim := range topology.Claims(nn) {
		yields, err := r.yieldsIn(ctx, nn, claim)
		if yields || err != nil {
			return yields, err
		}
	}
	return false, nil
}

func (r *Reconciler) yieldsIn(ctx context.Context, nn *networkv1alpha1.NodeNetwork, claim string) (bool, error) {
	var list networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &list, client.MatchingFields{ByClaim: claim}, client.UnsafeDisableDeepCopy); err != nil {
		return false, err
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == nn.Name {
			continue
		}
		if topology.Older(other, nn) {
			r.Events.Eventf(nn, other, corev1.EventTypeWarning, "NodeCollision", "Replace", "what NodeNetwork %s has is also in this one, which is the younger: it is replaced", other.Name)
			return true, nil
		}
		r.Trigger.Enqueue(types.NamespacedName{Name: other.Name})
	}
	return false, nil
}

// disown forgets what was assigned to a node, since it is another's.
func (r *Reconciler) disown(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.assigned, name)
}
