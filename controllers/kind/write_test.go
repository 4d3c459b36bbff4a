package kind_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/weft-network/weft/controllers/kind"
)

// What is changed after Detach is no memory of the cache.
func TestDetach(t *testing.T) {
	cached := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"rack": "1"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a"}}}}
	read := *cached
	before := kind.Detach(&read)
	read.Labels["rack"], read.Spec.Taints[0].Key = "2", "b"
	for _, node := range []*corev1.Node{cached, before} {
		if node.Labels["rack"] != "1" || node.Spec.Taints[0].Key != "a" {
			t.Errorf("the object of the cache has become %+v", node)
		}
	}
}

func TestRequests(t *testing.T) {
	pod := func(namespace, name, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	}
	c := fake.NewClientBuilder().WithObjects(pod("a", "x", "n1"), pod("a", "y", "n2"), pod("b", "x", "n1")).Build()
	all := kind.Requests(t.Context(), c, &corev1.PodList{})
	some := kind.RequestsIf(t.Context(), c, &corev1.PodList{}, func(p *corev1.Pod) bool { return p.Spec.NodeName == "n1" })
	if len(all) != 3 || len(some) != 2 || some[1].String() != "b/x" {
		t.Errorf("requests for all pods %v, for pods of n1 %v", all, some)
	}
}
