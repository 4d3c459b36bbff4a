package database

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/topology"
)

// The pass ends once, when every object that existed at start was reconciled, before or after it was listed.
func TestFirstPassEndsWithTheLastObject(t *testing.T) {
	var pods []client.Object
	for _, name := range []string{"a", "b", "c"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}})
	}
	pods = append(pods, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "s"}})
	reconcileOne := func(pass *FirstPass, kind, name string) {
		key := types.NamespacedName{Namespace: "demo", Name: name}
		if kind == topology.KindNode || kind == topology.KindGateway {
			key.Namespace = ""
		}
		pass.Reconciled(kind)(reconcile.Request{NamespacedName: key})
	}
	nodes := func() client.ObjectList { return &corev1.NodeList{} }
	kinds := []*kind.Kind{
		{Name: topology.KindPod, First: func() client.ObjectList { return &corev1.PodList{} }}, {Name: topology.KindNode, First: nodes},
		{Name: topology.KindGateway, First: nodes}, {Name: topology.KindService, First: func() client.ObjectList {
			return &corev1.ServiceList{}
		}},
		{Name: topology.KindNetwork},
	}
	ended := 0
	pass := NewFirstPass(func() { ended++ })
	reconcileOne(pass, topology.KindPod, "a")
	if err := pass.Begin(t.Context(), fake.NewClientBuilder().WithObjects(pods...).Build(), kinds); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		kind, name string
		want       int
	}{
		{"pod", "b", 0}, {"pod", "b", 0}, {"pod", "new", 0}, {"node", "n", 0}, {"service", "s", 0}, {"pod", "c", 0},
		{"gateway", "n", 1}, {"gateway", "n", 1}, {"pod", "a", 1},
	} {
		if reconcileOne(pass, step.kind, step.name); ended != step.want {
			t.Errorf("after %s %s the pass has ended %d times, want %d", step.kind, step.name, ended, step.want)
		}
	}
	empty := NewFirstPass(func() { ended++ })
	if err := empty.Begin(t.Context(), fake.NewClientBuilder().Build(), kinds); err != nil || ended != 2 {
		t.Errorf("without pods: ended %d times in all, want 2 (%v)", ended, err)
	}
}
