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
	"github.com/weft-network/weft/pkg/process/trigger"
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
	if err := pass.Begin(t.Context(), fake.NewClientBuilder().WithObjects(pods...).Build(), kinds, &trigger.Set{}); err != nil {
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
	if err := empty.Begin(t.Context(), fake.NewClientBuilder().Build(), kinds, &trigger.Set{}); err != nil || ended != 2 {
		t.Errorf("without pods: ended %d times in all, want 2 (%v)", ended, err)
	}
}

// The cache has an object that is deleted before its controller has started, so that the controller gets no event. The pass ends
// nevertheless, because it has enqueued the object. Objects that were reconciled before are not enqueued.
func TestFirstPassEndsWithoutEvents(t *testing.T) {
	named := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
	}
	kinds := []*kind.Kind{{Name: topology.KindService, First: func() client.ObjectList { return &corev1.ServiceList{} }}}
	ended, triggers := false, &trigger.Set{}
	pass := NewFirstPass(func() { ended = true })
	reconciled := pass.Reconciled(topology.KindService)
	reconciled(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(named("early"))})
	err := pass.Begin(t.Context(), fake.NewClientBuilder().WithObjects(named("early"), named("deleted")).Build(), kinds, triggers)
	if err != nil {
		t.Fatal(err)
	}
	enqueued := triggers.Of(topology.KindService).Take()
	if len(enqueued) != 1 || enqueued[0].Name != "deleted" || ended {
		t.Fatalf("enqueued %v, ended %t; want the deleted Service, not ended", enqueued, ended)
	}
	if reconciled(enqueued[0]); !ended {
		t.Error("the pass has not ended")
	}
}
