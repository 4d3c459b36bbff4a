package overlay

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func pod(name, node string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID("uid-" + name),
		Labels: labels}, Spec: corev1.PodSpec{NodeName: node}}
}

// world is an overlay on a base with pods a and b, and the changes that it reported.
type world struct {
	*testing.T
	*Client
	base    client.Client
	changed []string
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, base: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithObjects(pod("a", "n1", map[string]string{"app": "web"}), pod("b", "n1", nil)).
		WithStatusSubresource(&corev1.Pod{}).
		WithIndex(&corev1.Pod{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build()}
	w.Client = New(w.base, func(before, after client.Object) {
		if after == nil {
			after = before
		}
		w.changed = append(w.changed, after.GetName())
	})
	return w
}

func (w *world) get(name string) (*corev1.Pod, error) {
	var found corev1.Pod
	err := w.Get(w.Context(), types.NamespacedName{Namespace: "demo", Name: name}, &found)
	return &found, err
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) names(options ...client.ListOption) []string {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w.Context(), &list, options...))
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

func TestWritesStayInTheOverlay(t *testing.T) {
	w := newWorld(t)
	w.must(w.Create(t.Context(), pod("c", "n2", map[string]string{"app": "web"})))
	w.must(w.Delete(t.Context(), pod("b", "", nil)))
	a, err := w.get("a")
	w.must(err)
	before := a.DeepCopy()
	a.Annotations = map[string]string{"k": "v"}
	a.Status.Phase = corev1.PodRunning // requires a write of the status
	w.must(w.Patch(t.Context(), a, client.MergeFrom(before)))
	if a.Annotations["k"] != "v" || a.Status.Phase != "" {
		t.Errorf("patched pod is %v", a)
	}

	if got, want := w.names(), []string{"a", "c"}; !slices.Equal(got, want) {
		t.Errorf("pods are %v, want %v", got, want)
	}
	if got, want := w.names(client.MatchingLabels{"app": "web"}, client.InNamespace("demo")), []string{"a",
		"c"}; !slices.Equal(got, want) {
		t.Errorf("pods with the label are %v, want %v", got, want)
	}
	if got := w.names(client.InNamespace("other")); len(got) != 0 {
		t.Errorf("pods of another namespace are %v", got)
	}
	if _, err := w.get("b"); !apierrors.IsNotFound(err) {
		t.Errorf("deleted pod: %v", err)
	}
	if c, err := w.get("c"); err != nil || c.UID != UnknownUID {
		t.Errorf("created pod is %v, %v", c, err)
	}
	if want := []string{"c", "b", "a"}; !slices.Equal(w.changed, want) {
		t.Errorf("changed: %v, want %v", w.changed, want)
	}
	var list corev1.PodList
	w.must(w.base.List(t.Context(), &list))
	if len(list.Items) != 2 || list.Items[0].Annotations != nil {
		t.Errorf("the base has %v", list.Items)
	}
}

func TestStatusWritesLeaveTheRestAlone(t *testing.T) {
	w := newWorld(t)
	for _, make := range []func(before *corev1.Pod) client.Patch{
		func(before *corev1.Pod) client.Patch { return client.MergeFrom(before) },
		func(before *corev1.Pod) client.Patch { return client.StrategicMergeFrom(before) },
	} {
		a, err := w.get("a")
		w.must(err)
		before := a.DeepCopy()
		a.Spec.NodeName = "n9"
		a.Status.Conditions = append(a.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodConditionType("T" + string(rune('a'+len(a.Status.Conditions)))),
				Status: corev1.ConditionTrue})
		w.must(w.Status().Patch(t.Context(), a, make(before)))
	}
	if a, err := w.get("a"); err != nil || a.Spec.NodeName != "n1" || len(a.Status.Conditions) != 2 {
		t.Errorf("pod is %v, %v", a, err)
	}
}

func TestPatchWithoutADifferenceIsNoChange(t *testing.T) {
	w := newWorld(t)
	a, err := w.get("a")
	w.must(err)
	w.must(w.Patch(t.Context(), a.DeepCopy(), client.MergeFrom(a)))
	if len(w.changed) != 0 {
		t.Errorf("changed: %v", w.changed)
	}
}

func TestPut(t *testing.T) {
	w := newWorld(t)
	changed := pod("a", "n2", nil)
	w.must(w.Put(t.Context(), changed))
	changed.Spec.NodeName = "n9" // the caller's object
	if a, err := w.get("a"); err != nil || a.Spec.NodeName != "n2" || a.UID != "uid-a" {
		t.Errorf("pod is %v, %v", a, err)
	}
	w.must(w.Put(t.Context(), pod("new", "n1", nil)))
	if p, err := w.get("new"); err != nil || p.UID != UnknownUID {
		t.Errorf("new pod is %v, %v", p, err)
	}
	stranger := pod("b", "n1", nil)
	stranger.UID = ""
	if err := w.Put(t.Context(), stranger); err == nil {
		t.Error("a pod that exists was replaced by one without its UID")
	}
}

func TestMetadataOfWhatIsLaidOver(t *testing.T) {
	w := newWorld(t)
	w.must(w.Put(t.Context(), pod("a", "n1", map[string]string{"app": "db"})))
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	w.must(w.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: "a"}, found))
	if found.Labels["app"] != "db" || found.UID != "uid-a" {
		t.Errorf("metadata is %v", found)
	}
}

// A server-side apply of one condition keeps the others.
func TestApplyMergesConditions(t *testing.T) {
	have := map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "A", "status": "True"},
		map[string]any{"type": "B", "status": "True"}}}}
	with := map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "B", "status": "False"},
		map[string]any{"type": "C", "status": "True"}}}}
	merged := merge(have, with, true)
	got := ""
	status, _ := merged["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		got += m["type"].(string) + "=" + m["status"].(string) + " "
	}
	if want := "A=True B=False C=True "; got != want {
		t.Errorf("conditions are %s, want %s", got, want)
	}
}

// A call that a plan cannot simulate is an error, so that no plan is silently wrong.
func TestUnsupportedCallsFail(t *testing.T) {
	w := newWorld(t)
	w.must(w.Put(t.Context(), pod("a", "n2", nil)))
	for name, err := range map[string]error{
		"an apply":          w.Apply(t.Context(), nil),
		"a mass deletion":   w.DeleteAllOf(t.Context(), &corev1.Pod{}),
		"a field selector":  w.List(t.Context(), &corev1.PodList{}, client.MatchingFields{"metadata.name": "a"}),
		"a subresource":     w.SubResource("scale").Update(t.Context(), pod("a", "", nil)),
		"a created status":  w.Status().Create(t.Context(), pod("a", "", nil), nil),
		"an applied status": w.Status().Apply(t.Context(), nil),
	} {
		if !errors.Is(err, errUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.Create(t.Context(), pod("a", "", nil)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second creation: %v", err)
	}
	other := types.UID("another")
	if err := w.Delete(t.Context(), pod("a", "", nil), client.Preconditions{UID: &other}); !apierrors.IsConflict(err) {
		t.Errorf("deletion of another UID: %v", err)
	}
	if err := w.Delete(t.Context(), pod("z", "", nil)); !apierrors.IsNotFound(err) {
		t.Errorf("deletion of nothing: %v", err)
	}
}
