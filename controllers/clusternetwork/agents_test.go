package clusternetwork

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
)

func TestChangesOfAgentsThatAffectTheStatus(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "weft-system",
			Labels: map[string]string{networkv1alpha1.ComponentLabel: networkv1alpha1.ComponentAgent}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "agent",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
		change(p)
		return p
	}
	same := func(*corev1.Pod) {}
	passes := (&Reconciler{Settings: kind.Settings{Namespace: "weft-system"}}).agentsOnly()
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"nothing": {same, false},
		"a label": {func(p *corev1.Pod) { p.Labels["x"] = "y" }, false},
		"its container waits": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		}, true},
		"it is put on a node":        {func(p *corev1.Pod) { p.Spec.NodeName = "n1" }, true},
		"it is in another namespace": {func(p *corev1.Pod) { p.Namespace = "theirs"; p.Spec.NodeName = "n1" }, false},
		"its statuses are gone":      {func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, true},
	} {
		if have := passes.Update(event.UpdateEvent{ObjectOld: pod(same), ObjectNew: pod(c.change)}); have != c.want {
			t.Errorf("%s: passes %t, want %t", name, have, c.want)
		}
	}
}
