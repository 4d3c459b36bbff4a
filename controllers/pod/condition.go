package pod

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/podcondition"
)

// report writes the pod's conditions: whether the database refuses its port, with the error, and which of its host
// ports are refused. It also writes their end. A pod that was never refused has no such condition and costs no write.
func (r *Reconciler) report(ctx context.Context, pod *corev1.Pod, applied error, refused []string) error {
	var wanted []corev1.PodCondition
	if want, ok := portReady(pod, applied); ok {
		wanted = append(wanted, want)
	}
	if want, ok := hostPortsReady(pod, refused); ok {
		if want.Status == corev1.ConditionFalse {
			r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "ReservedHostPort", "MapHostPort", "%s", health.Cut(want.Message))
		}
		wanted = append(wanted, want)
	}
	if len(wanted) == 0 {
		return nil
	}
	patched := pod.DeepCopy()
	for _, want := range wanted {
		podcondition.Set(&patched.Status, want)
	}
	// The resource version makes the patch fail on a pod that was recreated under this name, and on a pod whose
	// condition is written already. The cached pod lacks most of its status, but the same parts on both sides of the
	// patch.
	patch := client.StrategicMergeFrom(pod, client.MergeFromWithOptimisticLock{})
	err := r.Client.Status().Patch(ctx, patched, patch)
	if applied != nil && apierrors.IsConflict(err) {
		return nil // the next attempt at the port writes the condition
	}
	return client.IgnoreNotFound(err)
}

// hostPortsReady returns the condition to write; ok is false if there is nothing to report.
func hostPortsReady(pod *corev1.Pod, refused []string) (want corev1.PodCondition, ok bool) {
	return podcondition.OfFailures(pod, networkv1alpha1.PodHostPortsReady, networkv1alpha1.ReasonReserved, strings.Join(refused, "; "))
}

// portReady returns the condition to write. ok is false if there is nothing to report.
func portReady(pod *corev1.Pod, applied error) (want corev1.PodCondition, ok bool) {
	have := podcondition.Find(pod, networkv1alpha1.PodPortReady)
	want = corev1.PodCondition{Type: networkv1alpha1.PodPortReady}
	var refused *ovndb.RejectedError
	switch {
	case errors.As(applied, &refused):
		want.Status, want.Reason, want.Message = corev1.ConditionFalse, networkv1alpha1.ReasonDatabaseRefused, refused.Err.Error()
	case applied == nil && have != nil:
		want.Status, want.Reason = corev1.ConditionTrue, networkv1alpha1.ReasonAsExpected
	default:
		return want, false
	}
	return want, podcondition.Differs(have, &want)
}
