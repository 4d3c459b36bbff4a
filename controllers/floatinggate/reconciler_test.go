package floatinggate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/addresses/floating/placement"
	"github.com/weft-network/weft/pkg/podcondition"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// world is an API server with two racks and a gated pod of a pool that both carry.
type world struct {
	*testing.T
	client.WithWatch
	// patched, if set, is called before each patch of a pod.
	patched func() error
	writes  int
}

var name = types.NamespacedName{Namespace: "demo", Name: "web"}

func newWorld(t *testing.T) *world {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, UID: "u1",
		Annotations: map[string]string{networkv1alpha1.IPPoolAnnotation: "web"}},
		Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: networkv1alpha1.FloatingGate}}}}
	node := func(name, rack string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack}}}
	}
	pool := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pool.Spec.Location, pool.Spec.Namespaces = networkv1alpha1.LocationNAT, &metav1.LabelSelector{}
	for rack, addresses := range map[string]string{"1": "192.0.2.1", "2": "192.0.2.16-192.0.2.20"} {
		pool.Spec.Ranges = append(pool.Spec.Ranges, networkv1alpha1.IPPoolRange{Addresses: addresses,
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": rack}}})
	}
	pool.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	w.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&corev1.Pod{}).
		WithObjects(pod, node("a", "1"), node("b", "2"), pool, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				w.writes++
				return c.Create(ctx, o, options...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
				w.writes++
				if w.patched != nil {
					if err := w.patched(); err != nil {
						return err
					}
				}
				return c.Patch(ctx, o, p, options...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, resource string, o client.Object, p client.Patch,
				options ...client.SubResourcePatchOption) error {
				w.writes++
				return c.SubResource(resource).Patch(ctx, o, p, options...)
			},
		}).Build()
	return w
}

// operator returns the reconciler of a process that has just started.
func (w *world) operator() *Reconciler {
	return &Reconciler{Client: w, Floating: claim.New(w, w, time.Now), Events: events.NewFakeRecorder(100), Triggers: &trigger.Set{}}
}

func (w *world) pod() *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{}
	if err := w.Get(w.Context(), name, pod); err != nil {
		w.Fatal(err)
	}
	return pod
}

// holders lists who has which address.
func (w *world) holders() string {
	w.Helper()
	var all networkv1alpha1.FloatingIPList
	if err := w.List(w.Context(), &all); err != nil {
		w.Fatal(err)
	}
	var list []string
	for _, f := range all.Items {
		list = append(list, string(f.Spec.Address)+" "+string(f.Spec.Holder.PodUID))
	}
	return strings.Join(list, ", ")
}

func (w *world) reconcile(r *Reconciler) error {
	_, err := r.Reconcile(w.Context(), ctrl.Request{NamespacedName: name})
	return err
}

// The operator ends between the FloatingIP and the pod: the next one goes on with the same address, although another
// rack has more free ones now.
func TestOperatorEndsBeforeItRemovesTheGate(t *testing.T) {
	w := newWorld(t)
	killed := errors.New("killed")
	w.patched = func() error { return killed }
	if err := w.reconcile(w.operator()); !errors.Is(err, killed) {
		t.Fatalf("the reconciliation ended with %v", err)
	}
	if got := w.holders(); got != "192.0.2.16 u1" || !placement.IsGated(w.pod()) {
		t.Fatalf("after the claim: %s, gates %v", got, w.pod().Spec.SchedulingGates)
	}
	pool := &networkv1alpha1.IPPool{}
	w.must(w.Get(t.Context(), types.NamespacedName{Name: "web"}, pool))
	for i := range pool.Spec.Ranges {
		if pool.Spec.Ranges[i].Addresses == "192.0.2.1" {
			pool.Spec.Ranges[i].Addresses = "192.0.2.1-192.0.2.9"
		}
	}
	w.must(w.Update(t.Context(), pool))
	w.patched, w.writes = nil, 0
	w.must(w.reconcile(w.operator()))
	if got := w.holders(); got != "192.0.2.16 u1" || w.writes != 1 {
		t.Errorf("after the second start: %s, %d writes, want 1", got, w.writes)
	}
	w.placed("2", "192.0.2.16")
	w.must(w.reconcile(w.operator()))
	if w.writes != 1 {
		t.Errorf("a pod without the gate costs %d writes", w.writes-1)
	}
}

// Another process changes the pod between the read and the patch: the gate stays, and no address is claimed twice.
func TestPodChangesMeanwhile(t *testing.T) {
	w := newWorld(t)
	r := w.operator()
	w.patched = func() error {
		w.patched = nil
		pod := w.pod()
		pod.Spec.NodeSelector = map[string]string{"rack": "1"}
		return w.Update(t.Context(), pod)
	}
	w.must(w.reconcile(r))
	if !placement.IsGated(w.pod()) {
		t.Fatal("the pod lost its gate, although its node selector had changed")
	}
	w.must(w.reconcile(r)) // the event of the change
	w.placed("1", "192.0.2.1")
	// The first address is free once the pod is bound.
	if got := w.holders(); got != "192.0.2.1 u1, 192.0.2.16 u1" {
		t.Errorf("holders %s", got)
	}
	pod := w.pod()
	pod.Spec.NodeName = "a"
	got, err := r.Floating.Claim(t.Context(), pod, floating.Node{Name: "a", Labels: map[string]string{"rack": "1"}}, nil)
	if err != nil || len(got) != 1 || got[0].String() != "192.0.2.1" || len(r.Floating.Book.Of("u1")) != 1 {
		t.Errorf("the bound pod gets %v, %v and has %d", got, err, len(r.Floating.Book.Of("u1")))
	}
}

// A pod that lacks an address writes once why, and waits for its pool.
func TestWaitingPodWritesOnce(t *testing.T) {
	w := newWorld(t)
	w.must(w.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}))
	w.must(w.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}}))
	r := w.operator()
	for range 3 {
		w.must(w.reconcile(r))
	}
	have := podcondition.Find(w.pod(), networkv1alpha1.PodFloatingIP)
	if w.writes != 1 || have == nil || !strings.HasPrefix(have.Message, "there is no node") {
		t.Errorf("%d writes, condition %+v", w.writes, have)
	}
	waits := func(pool string) int {
		return len(r.waiting.of(func(_ types.NamespacedName, of string) bool { return of == pool }))
	}
	if waits("web") != 1 || waits("other") != 0 {
		t.Error("the pod does not wait for its pool")
	}
	w.must(w.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"rack": "1"}}}))
	w.must(w.reconcile(r))
	w.placed("1", "192.0.2.1")
	if !concerns(w.pod()) {
		t.Error("the condition of the pod stays as it is")
	}
	w.must(w.reconcile(r)) // the event of the pod without the gate
	if concerns(w.pod()) {
		t.Error("the pod is not done")
	}
	if have := podcondition.Find(w.pod(), networkv1alpha1.PodFloatingIP); waits("web") != 0 || have.Status != corev1.ConditionTrue {
		t.Errorf("condition %+v, waiting %d", have, waits("web"))
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// placed checks that the pod has no gate, and is confined to a rack.
func (w *world) placed(rack, address string) {
	w.Helper()
	pod := w.pod()
	nodes := placement.Nodes(pod, []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "1", Labels: map[string]string{"rack": "1"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "2", Labels: map[string]string{"rack": "2"}}}})
	got := pod.Annotations[networkv1alpha1.FloatingIPsAnnotation]
	if placement.IsGated(pod) || len(nodes) != 1 || nodes[0].Name != rack || got != address {
		w.Errorf("gates %v, nodes %v, annotations %v, want rack %s with %s", pod.Spec.SchedulingGates, nodes, pod.Annotations, rack, address)
	}
}
