package pod

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovndb"
)

// tell says in the pod's conditions that the database refuses its port, in the database's own words, and later that it does not
// any more. A pod that was never refused has no such condition and costs no write.
func (r *Reconciler) tell(ctx context.Context, pod *corev1.Pod, applied error) error {
	want, ok := portReady(pod, applied)
	if !ok {
		return nil
	}
	patched := pod.DeepCopy()
	setCondition(&patched.Status, want)
	// The resource version makes the patch fail on a pod that was made anew under this name, and on one whose condition is written
	// already. The cached pod lacks most of its status, but the same of both sides.
	patch := client.StrategicMergeFrom(pod, client.MergeFromWithOptimisticLock{})
	err := r.Client.Status().Patch(ctx, patched, patch)
	if applied != nil && apierrors.IsConflict(err) {
		return nil // the next attempt at the port comes back here
	}
	return client.IgnoreNotFound(err)
}

// portReady returns the condition to write; ok is false if there is nothing to say.
func portReady(pod *corev1.Pod, applied error) (want corev1.PodCondition, ok bool) {
	have := findCondition(pod)
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
	if have == nil {
		return want, true
	}
	if have.Status == want.Status {
		want.LastTransitionTime = have.LastTransitionTime
	}
	return want, have.Status != want.Status || have.Reason != want.Reason || have.Message != want.Message
}

func findCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == networkv1alpha1.PodPortReady {
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
