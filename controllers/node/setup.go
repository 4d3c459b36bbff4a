package node

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/trigger"
)

// workers is how many nodes are reconciled at once: what they write together is one transaction.
const workers = 16

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &networkv1alpha1.NodeNetwork{}, ByClaim, IndexByClaim); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("node").
		For(&corev1.Node{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: nodeChanged})).
		Watches(&networkv1alpha1.NodeNetwork{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: networkChanged})).
		Watches(&networkv1alpha1.NodeNetwork{}, handler.EnqueueRequestsFromMapFunc(r.asking), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: moveChanged})).
		Watches(&networkv1alpha1.ClusterNetwork{}, handler.EnqueueRequestsFromMapFunc(r.allNodes), builder.WithPredicates(predicate.Funcs{UpdateFunc: planChanged})).
		WatchesRawSource(r.Trigger).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: trigger.Retries()}).
		Complete(trigger.Looked(r, r.Looked))
}

func (r *Reconciler) allNodes(ctx context.Context, _ client.Object) []reconcile.Request {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return nil // the cache answers; it has no errors to give once it is in sync
	}
	requests := make([]reconcile.Request, 0, len(nodes.Items))
	for i := range nodes.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: nodes.Items[i].Name}})
	}
	return requests
}

// nodeChanged lets changes of labels, of our condition and of the startup taint pass; it leaves the heartbeats of kubelet aside.
func nodeChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	return !ok || !ok2 || !maps.Equal(before.Labels, after.Labels) || startupTaints(before) != startupTaints(after) || !equality.Semantic.DeepEqual(unavailable(before), unavailable(after))
}

func unavailable(node *corev1.Node) corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			c.LastHeartbeatTime.Reset()
			return c
		}
	}
	return corev1.NodeCondition{}
}

// networkChanged lets changes of the spec, the chassis, the move asked for and the health pass.
func networkChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.NodeNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.NodeNetwork)
	if !ok || !ok2 {
		return true
	}
	return before.Generation != after.Generation || before.Status.Chassis != after.Status.Chassis || before.Status.Move != after.Status.Move ||
		!equality.Semantic.DeepEqual(readyOf(before), readyOf(after))
}

func readyOf(nn *networkv1alpha1.NodeNetwork) any {
	return meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionReady)
}

// planChanged lets changes of what node subnets are computed from pass.
func planChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.ClusterNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.ClusterNetwork)
	return !ok || !ok2 || before.Generation != after.Generation || before.Status.MTU != after.Status.MTU
}
