package pod

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/podcondition"
)

// report writes the pod's conditions: whether the database refuses its port, with the error, which of its requests are not
// granted, and which of its host ports are refused. It also writes their end. A pod that was never refused has no such
// condition and costs no write.
func (r *Reconciler) report(ctx context.Context, pod *corev1.Pod, applied, denied error, ports refusedPorts) error {
	ready, hostPorts := portReady(pod, applied), hostPortsReady(pod, ports)
	if hostPorts != nil && len(ports.reserved) > 0 {
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "ReservedHostPort", "MapHostPort", "%s", health.Cut(hostPorts.Message))
	}
	return r.patchConditions(ctx, pod, applied != nil, ready, requestsGranted(pod, denied), hostPorts)
}

// patchConditions writes conditions of a pod. A nil condition is as wanted already. again means that the caller reconciles
// the pod again in any case.
func (r *Reconciler) patchConditions(ctx context.Context, pod *corev1.Pod, again bool, wanted ...*corev1.PodCondition) error {
	patched := pod.DeepCopy()
	changed := false
	for _, want := range wanted {
		if want != nil {
			podcondition.Set(&patched.Status, *want)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	// The resource version makes the patch fail on a pod that was recreated under this name, and on a pod whose
	// condition is written already. The cached pod lacks most of its status, but the same parts on both sides of the
	// patch.
	patch := client.StrategicMergeFrom(pod, client.MergeFromWithOptimisticLock{})
	err := r.Client.Status().Patch(ctx, patched, patch)
	if again && apierrors.IsConflict(err) {
		return nil // the next attempt at the port writes the condition
	}
	return client.IgnoreNotFound(err)
}

// requestsGranted returns the condition of a pod whose request was denied, or nil if it is as wanted already. An error of
// the system is no denial.
func requestsGranted(pod *corev1.Pod, denied error) *corev1.PodCondition {
	message := ""
	if denied != nil {
		message = health.Cut(denied.Error())
	}
	return of(podcondition.OfFailures(pod, networkv1alpha1.PodRequestsGranted, denialReason(denied), message))
}

// hostPortsReady returns the condition to write, or nil.
func hostPortsReady(pod *corev1.Pod, refused refusedPorts) *corev1.PodCondition {
	reason := networkv1alpha1.ReasonInvalidRequest
	if len(refused.reserved) > 0 {
		reason = networkv1alpha1.ReasonReserved
	}
	return of(podcondition.OfFailures(pod, networkv1alpha1.PodHostPortsReady, reason,
		strings.Join(slices.Concat(refused.reserved, refused.invalid), "; ")))
}

func of(want corev1.PodCondition, ok bool) *corev1.PodCondition {
	if !ok {
		return nil
	}
	return &want
}

// portReady returns the condition to write, or nil.
func portReady(pod *corev1.Pod, applied error) *corev1.PodCondition {
	have := podcondition.Find(pod, networkv1alpha1.PodPortReady)
	want := corev1.PodCondition{Type: networkv1alpha1.PodPortReady}
	var refused *ovndb.RejectedError
	switch {
	case errors.As(applied, &refused):
		want.Status, want.Reason, want.Message = corev1.ConditionFalse, networkv1alpha1.ReasonDatabaseRefused, refused.Err.Error()
	case applied == nil && have != nil:
		want.Status, want.Reason = corev1.ConditionTrue, networkv1alpha1.ReasonAsExpected
	default:
		return nil
	}
	return of(want, podcondition.Differs(have, &want))
}
