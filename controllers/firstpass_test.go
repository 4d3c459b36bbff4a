package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// The pass is over, once, when every pod of the start was looked at, before or after the list was made.
func TestFirstPassEndsWithTheLastPod(t *testing.T) {
	var pods []client.Object
	for _, name := range []string{"a", "b", "c"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}})
	}
	name := func(pod string) types.NamespacedName { return types.NamespacedName{Namespace: "demo", Name: pod} }
	ended := 0
	pass := &firstPass{done: func() { ended++ }}
	pass.look(name("a"))
	if err := pass.begin(t.Context(), fake.NewClientBuilder().WithObjects(pods...).Build()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		pod  string
		want int
	}{{"b", 0}, {"b", 0}, {"new", 0}, {"c", 1}, {"c", 1}, {"a", 1}} {
		if pass.look(name(step.pod)); ended != step.want {
			t.Errorf("after %s the pass has ended %d times, want %d", step.pod, ended, step.want)
		}
	}
	empty := &firstPass{done: func() { ended++ }}
	if err := empty.begin(t.Context(), fake.NewClientBuilder().Build()); err != nil || ended != 2 {
		t.Errorf("without pods: ended %d times in all, want 2 (%v)", ended, err)
	}
}
