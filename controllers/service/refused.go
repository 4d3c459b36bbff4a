package service

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// reportRefused records in an event and in the service's conditions which of its addresses are reserved, and later
// that none are any more. A service that never requested a reserved address has no such condition and costs no write.
func (r *Reconciler) reportRefused(ctx context.Context, service *corev1.Service, refused []string) error {
	want := addressesReady(service, refused)
	have := meta.FindStatusCondition(service.Status.Conditions, want.Type)
	if have == nil && len(refused) == 0 || have != nil && have.Status == want.Status && have.Message == want.Message {
		return nil
	}
	if len(refused) > 0 {
		r.Events.Eventf(service, nil, corev1.EventTypeWarning, "ReservedDestination", "Balance", "%s", health.Cut(want.Message))
	}
	patched := service.DeepCopy()
	meta.SetStatusCondition(&patched.Status.Conditions, want)
	// A merge patch replaces the list. With the resource version it fails if another program has written a condition
	// meanwhile.
	patch := client.MergeFromWithOptions(service, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, patched, patch))
}

// addressesReady returns the condition ServiceAddressesReady.
func addressesReady(service *corev1.Service, refused []string) metav1.Condition {
	c := metav1.Condition{Type: networkv1alpha1.ServiceAddressesReady, Status: metav1.ConditionTrue,
		Reason:             networkv1alpha1.ReasonAsExpected,
		ObservedGeneration: service.Generation}
	if len(refused) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, networkv1alpha1.ReasonReserved, strings.Join(refused, "; ")
	}
	return c
}
