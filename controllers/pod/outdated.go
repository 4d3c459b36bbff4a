package pod

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/topology"
)

// outdated records an event on pods whose addresses differ from now on from a new pod's, because the networks of their
// node have changed. The pods keep their addresses. ClusterNetwork's status counts them.
func (r *Reconciler) outdated(owners []alloc.Owner) {
	for _, owner := range owners {
		why := r.Addresses.WhyOutdated(owner)
		var pod corev1.Pod
		err := r.Client.Get(context.Background(), owner.Pod(), &pod)
		if why == "" || err != nil || ownerOf(&pod) != owner {
			continue
		}
		r.Events.Eventf(&pod, nil, corev1.EventTypeNormal, networkv1alpha1.ReasonPodsOutdated, "ChangeNetworks",
			"the networks of the cluster have changed: %s; the pod keeps its addresses until it is recreated", why)
	}
	r.counted()
}

// vacated enqueues a node with a leaving subnet that no pod uses any more. The node gives it up.
func (r *Reconciler) vacated(node string) {
	if len(r.Addresses.Idle(node)) > 0 {
		r.Triggers.Enqueue(topology.KindNode, types.NamespacedName{Name: node})
	}
}

// enlarge enqueues a node on which a pod finds no address. The node gets another subnet, if one is left. The node's
// reconciler enqueues the pods without an address again, so a node that gets none must not be enqueued for them again.
func (r *Reconciler) enlarge(node string, reason error) {
	if errors.Is(reason, ipam.ErrExhausted) && r.Addresses.NewlyLacking(node) {
		r.Triggers.Enqueue(topology.KindNode, types.NamespacedName{Name: node})
	}
}
