package gateway

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/trigger"
)

// workers is how many gateways are reconciled at once: what they write together is one transaction.
const workers = 16

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	for _, object := range []client.Object{&corev1.Node{}, &networkv1alpha1.NodeNetwork{}} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), object, ByAddress, IndexByAddress); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(mgr).Named("gateway").
		For(&corev1.Node{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: nodeChanged})).
		Watches(&networkv1alpha1.NodeNetwork{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: networkChanged})).
		Watches(&corev1.Node{}, r.claimers()).
		Watches(&networkv1alpha1.NodeNetwork{}, r.claimers()).
		WatchesRawSource(r.Trigger).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: trigger.Retries()}).
		Complete(trigger.Looked(r, r.Looked))
}

// nodeChanged lets changes of the node's addresses pass.
func nodeChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	return !ok || !ok2 || !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}

// networkChanged lets changes of the spec, the chassis, the link and our own condition pass: a write of it may have come through without its reply.
func networkChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.NodeNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.NodeNetwork)
	return !ok || !ok2 || before.Generation != after.Generation || before.Status.Chassis != after.Status.Chassis ||
		!equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway) || !equality.Semantic.DeepEqual(accepted(before), accepted(after))
}

func accepted(nn *networkv1alpha1.NodeNetwork) *metav1.Condition {
	return meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionGatewayAccepted)
}
