package pod

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// selectedByService returns a request for each pod that a Service selects, whose address may be the pods' source outside.
func (r *Reconciler) selectedByService(ctx context.Context, o client.Object) []reconcile.Request {
	service, ok := o.(*corev1.Service)
	if !ok || len(service.Spec.Selector) == 0 {
		return nil
	}
	return r.list(ctx, client.InNamespace(service.Namespace), client.MatchingLabels(service.Spec.Selector))
}
