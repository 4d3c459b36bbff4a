//go:build e2e

package alertfaults

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gate is a readiness gate that, with kubelet's own condition, decides whether the backend is Ready, as for
// controllers of load balancers.
const gate corev1.PodConditionType = "weft.dev/alarm"

// backend is the only pod of a service. Its readiness, and with it the service's endpoints, can change immediately
// and without any packet.
type backend struct {
	ward  *ward
	pod   *corev1.Pod
	ready bool
}

// serve creates a service with its backend.
func (w *ward) serve(t *testing.T) *backend {
	t.Helper()
	pod := w.Pausing("backend", "n2")
	pod.Labels = map[string]string{"app": "alarm"}
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "alarm"}}
	service.Spec.Selector, service.Spec.Ports = pod.Labels, []corev1.ServicePort{{Port: 80}}
	w.create(t, service, pod)
	b := &backend{ward: w, pod: pod}
	eventually(t, patience, func() error {
		err := w.API.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
		}
		return err
	})
	must(t, b.toggle(t.Context()))
	return b
}

// toggle changes the service's endpoints: it removes the backend or adds it again.
func (b *backend) toggle(ctx context.Context) error {
	b.ready = !b.ready
	status := corev1.ConditionFalse
	if b.ready {
		status = corev1.ConditionTrue
	}
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":%q}]}}`, gate, status)
	return b.ward.API.Status().Patch(ctx, b.pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
}
