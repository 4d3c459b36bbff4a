//go:build e2e

package alarm

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gate is a condition that decides with kubelet's own whether the backend is Ready, as those of load balancers' controllers.
const gate corev1.PodConditionType = "weft.dev/alarm"

// backend is the one pod behind a service. Its readiness changes at once and without any packet, and with it the service's endpoints.
type backend struct {
	ward  *ward
	pod   *corev1.Pod
	ready bool
}

// serve makes a service with its backend.
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

// toggle changes the service's endpoints: from the backend to none, or back.
func (b *backend) toggle(ctx context.Context) error {
	b.ready = !b.ready
	status := corev1.ConditionFalse
	if b.ready {
		status = corev1.ConditionTrue
	}
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":%q}]}}`, gate, status)
	return b.ward.API.Status().Patch(ctx, b.pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
}
