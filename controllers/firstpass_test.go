package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/weft-network/weft/pkg/topology"
)

// The pass is over, once, when every object of the start was looked at, before or after the list was made.
func TestFirstPassEndsWithTheLastObject(t *testing.T) {
	var pods []client.Object
	for _, name := range []string{"a", "b", "c"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}})
	}
	pods = append(pods, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "s"}})
	look := func(pass *firstPass, kind, name string) {
		key := types.NamespacedName{Namespace: "demo", Name: name}
		if kind == topology.KindNode || kind == topology.KindGateway {
			key.Namespace = ""
		}
		pass.look(kind)(key)
	}
	ended := 0
	pass := &firstPass{done: func() { ended++ }}
	look(pass, topology.KindPod, "a")
	if err := pass.begin(t.Context(), fake.NewClientBuilder().WithObjects(pods...).Build()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		kind, name string
		want       int
	}{
		{"pod", "b", 0}, {"pod", "b", 0}, {"pod", "new", 0}, {"node", "n", 0}, {"service", "s", 0}, {"pod", "c", 0},
		{"gateway", "n", 1}, {"gateway", "n", 1}, {"pod", "a", 1},
	} {
		if look(pass, step.kind, step.name); ended != step.want {
			t.Errorf("after %s %s the pass has ended %d times, want %d", step.kind, step.name, ended, step.want)
		}
	}
	empty := &firstPass{done: func() { ended++ }}
	if err := empty.begin(t.Context(), fake.NewClientBuilder().Build()); err != nil || ended != 2 {
		t.Errorf("without pods: ended %d times in all, want 2 (%v)", ended, err)
	}
}
