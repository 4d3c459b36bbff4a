package operator

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// workloads remembers how many pods each workload lacks.
type workloads struct {
	mu      sync.Mutex
	missing map[string]int32
}

// Workload implements controllers.WorkloadObserver.
func (o *workloads) Workload(kind, name string, missing int32) {
	o.set(func() { o.missing[kind+"/"+name] = missing })
}

// NoWorkload implements controllers.WorkloadObserver.
func (o *workloads) NoWorkload(kind, name string) { o.set(func() { delete(o.missing, kind+"/"+name) }) }

func (o *workloads) set(change func()) {
	defer news.Notify()
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// The operator counts the pods that each workload of Weft lacks of its present spec, and forgets a deleted workload.
func TestWorkloadsOfWeftAreObserved(t *testing.T) {
	w := newWorld(t)
	seen := &workloads{missing: map[string]int32{}}
	w.workloads, w.namespace = seen, "default"
	w.start()
	w.network(dualStack()...)
	expect := func(want map[string]int32) {
		t.Helper()
		w.until(func() error {
			seen.mu.Lock()
			defer seen.mu.Unlock()
			if !maps.Equal(seen.missing, want) {
				return fmt.Errorf("missing pods: %v, want %v", seen.missing, want)
			}
			return nil
		})
	}
	members, other := statefulSet("weft-central", 2), statefulSet("db", 1)
	for _, set := range []*appsv1.StatefulSet{other, members} {
		w.must(api.Create(w.Context(), set))
		w.Cleanup(func() { w.must(client.IgnoreNotFound(api.Delete(context.Background(), set))) })
	}
	expect(map[string]int32{"StatefulSet/weft-central": 2})
	members.Status = appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 1}
	w.must(api.Status().Update(w.Context(), members))
	expect(map[string]int32{"StatefulSet/weft-central": 1})
	members.Status.AvailableReplicas = 2
	w.must(api.Status().Update(w.Context(), members))
	expect(map[string]int32{"StatefulSet/weft-central": 0})
	patch(w, members, func(s *appsv1.StatefulSet) {
		s.Annotations = map[string]string{networkv1alpha1.AppliedAnnotation: "digest"}
	})
	expect(map[string]int32{"StatefulSet/weft-central": 0, "Deployment/weft-operands": 1}) // who applied it is away
	labels := map[string]string{"app": "operands"}
	operands := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "weft-operands"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: onceTemplate()}}
	operands.Spec.Template.Labels, operands.Spec.Template.Spec.RestartPolicy = labels, corev1.RestartPolicyAlways
	w.made(operands)
	operands.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	w.must(api.Status().Update(w.Context(), operands))
	expect(map[string]int32{"StatefulSet/weft-central": 0, "Deployment/weft-operands": 0})
	w.gone(operands)
	expect(map[string]int32{"StatefulSet/weft-central": 0, "Deployment/weft-operands": 1})
	w.must(api.Delete(w.Context(), members))
	expect(map[string]int32{"Deployment/weft-operands": 1})
}
