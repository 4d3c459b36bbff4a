package pod

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ovndb"
)

// report writes the pod's conditions: whether the database refuses its port, with the error, and which of its host
// ports are refused. It also writes their end. A pod that was never refused has no such condition and costs no write.
func (r *Reconciler) report(ctx context.Context, pod *corev1.Pod, applied error, refused []string) error {
	patched, changed := pod.DeepCopy(), false
	if want, ok := portReady(pod, applied); ok {
		setCondition(&patched.Status, want)
		changed = true
	}
	if want, ok := hostPortsReady(pod, refused); ok {
		if want.Status == corev1.ConditionFalse {
			r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "ReservedHostPort", "MapHostPort", "%s", health.Cut(want.Message))
		}
		setCondition(&patched.Status, want)
		changed = true
	}
	if !changed {
		return nil
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
	have := findCondition(pod, networkv1alpha1.PodHostPortsReady)
	if have == nil && len(refused) == 0 {
		return want, false
	}
	want = corev1.PodCondition{Type: networkv1alpha1.PodHostPortsReady, LastTransitionTime: metav1.Now(),
		Status: corev1.ConditionTrue, Reason: networkv1alpha1.ReasonAsExpected}
	if len(refused) > 0 {
		want.Status, want.Reason, want.Message = corev1.ConditionFalse, networkv1alpha1.ReasonReserved, strings.Join(refused, "; ")
	}
	return want, differs(have, &want)
}

// differs reports whether a condition must be written. It keeps the time of the last transition if there was none.
func differs(have, want *corev1.PodCondition) bool {
	if have == nil {
		return true
	}
	if have.Status == want.Status {
		want.LastTransitionTime = have.LastTransitionTime
	}
	return have.Status != want.Status || have.Reason != want.Reason || have.Message != want.Message
}

// portReady returns the condition to write. ok is false if there is nothing to report.
func portReady(pod *corev1.Pod, applied error) (want corev1.PodCondition, ok bool) {
	have := findCondition(pod, networkv1alpha1.PodPortReady)
	want = corev1.PodCondition{Type: networkv1alpha1.PodPortReady, LastTransitionTime: metav1.Now()}
	var refused *ovndb.RejectedError
	switch {
	case errors.As(applied, &refused):
		want.Status, want.Reason, want.Message = corev1.ConditionFalse, networkv1alpha1.ReasonDatabaseRefused, refused.Err.Error()
	case applied == nil && have != nil:
		want.Status, want.Reason = corev1.ConditionTrue, networkv1alpha1.ReasonAsExpected
	default:
		return want, false
	}
	return want, differs(have, &want)
}

func findCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func setCondition(status *corev1.PodStatus, want corev1.PodCondition) {
	for i := range status.Conditions {
		if status.Conditions[i].Type == want.Type {
			status.Conditions[i] = want
			return
		}
	}
	status.Conditions = append(status.Conditions, want)
}
