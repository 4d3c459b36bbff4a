package service

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/health"
)

// lacks has a sentence for each address and node port that a service requests and does not get.
type lacks struct {
	reserved  []string
	conflicts []string // another service has it
}

// reportLacks records in an event and in the service's conditions which of its addresses it does not get, and later that it has
// all. A service that never lacked one has no such condition and costs no write.
func (r *Reconciler) reportLacks(ctx context.Context, service *corev1.Service, l lacks) error {
	want := addressesReady(service, l)
	have := meta.FindStatusCondition(service.Status.Conditions, want.Type)
	if have == nil && want.Status == metav1.ConditionTrue ||
		have != nil && have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
		return nil
	}
	if len(l.reserved) > 0 {
		r.Events.Eventf(service, nil, corev1.EventTypeWarning, "ReservedDestination", "Balance", "%s", health.Cut(want.Message))
	}
	patched := service.DeepCopy()
	meta.SetStatusCondition(&patched.Status.Conditions, want)
	return client.IgnoreNotFound(kind.WriteStatus(ctx, r.Client, service, patched))
}

// addressesReady returns the condition ServiceAddressesReady.
func addressesReady(service *corev1.Service, l lacks) metav1.Condition {
	c := metav1.Condition{Type: networkv1alpha1.ServiceAddressesReady, Status: metav1.ConditionTrue,
		Reason:             networkv1alpha1.ReasonAsExpected,
		ObservedGeneration: service.Generation}
	switch {
	case len(l.reserved) > 0:
		c.Reason = networkv1alpha1.ReasonReserved
	case len(l.conflicts) > 0:
		c.Reason = networkv1alpha1.ReasonAddressConflict
	default:
		return c
	}
	c.Status, c.Message = metav1.ConditionFalse, health.CutMessage(strings.Join(slices.Concat(l.reserved, l.conflicts), "; "))
	return c
}
