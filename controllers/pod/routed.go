package pod

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// nextHops returns the routers of a pod's own. A pod with an EgressIP leaves by that. On a node without a gateway router
// the rows have no effect.
func (s *surroundings) nextHops() []facts.NextHop {
	if s.by.egressIP != "" || s.place == elsewhere {
		return nil
	}
	return facts.Reachable(s.by.nextHops, s.node)
}

// unrouted enqueues the gateway of a node on which a pod has lost its address: nobody may need to watch the pod's routers any more.
func (r *Reconciler) unrouted(node string) {
	if _, routes := r.state.seen(); routes {
		r.Triggers.Enqueue(topology.KindGateway, types.NamespacedName{Name: node})
	}
}

// routed enqueues the pods that an ExternalRoute selects, or selected, when their routers may have changed.
func (r *Reconciler) routed() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue, objects ...client.Object) {
		for _, o := range objects {
			e, ok := o.(*networkv1alpha1.ExternalRoute)
			if !ok {
				continue
			}
			for _, request := range r.podsMatching(ctx, func(namespace, pod labels.Set) (bool, error) {
				return facts.RouteSelects(e, namespace, pod)
			}) {
				q.Add(request)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if trigger.Update(kind.ExternalRouteChanged)(e) {
				enqueue(ctx, q, e.ObjectOld, e.ObjectNew)
			}
		},
	}
}
