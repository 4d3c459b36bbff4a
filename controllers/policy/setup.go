package policy

import (
	networkingv1 "k8s.io/api/networking/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/weft-network/weft/pkg/trigger"
)

// workers is how many policies or sets are reconciled at once: each waits for its transaction, and those that wait share the next.
const workers = 8

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("networkpolicy").
		For(&networkingv1.NetworkPolicy{}, builder.WithPredicates(trigger.SpecChanged())).
		WatchesRawSource(r.Trigger).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: trigger.Retries()}).
		Complete(r)
}

// SetupWithManager registers the controller.
func (r *Sets) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named(r.Kind).
		WatchesRawSource(r.Trigger).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: trigger.Retries()}).
		Complete(r)
}
