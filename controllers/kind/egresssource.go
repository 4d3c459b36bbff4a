package kind

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// RequestsEgressSource reports whether a Service requests, in a readable way or not, to be the source of its pods outside.
func RequestsEgressSource(o client.Object) bool {
	return o.GetAnnotations()[networkv1alpha1.EgressSourceAnnotation] != ""
}

// IndexByEgressSource is the function of the index ServicesLeaving.
func IndexByEgressSource(o client.Object) []string {
	if RequestsEgressSource(o) {
		return []string{"true"}
	}
	return nil
}

// EgressSourceChanged passes events that change which pods leave with the addresses of a Service.
func EgressSourceChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return RequestsEgressSource(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return RequestsEgressSource(e.Object) },
		UpdateFunc: trigger.Update(func(before, after *corev1.Service) bool {
			if !RequestsEgressSource(before) && !RequestsEgressSource(after) {
				return false
			}
			const request = networkv1alpha1.EgressSourceAnnotation
			return before.Annotations[request] != after.Annotations[request] || before.Spec.Type != after.Spec.Type ||
				!maps.Equal(before.Spec.Selector, after.Spec.Selector) ||
				!equality.Semantic.DeepEqual(before.Status.LoadBalancer, after.Status.LoadBalancer)
		}),
	}
}
