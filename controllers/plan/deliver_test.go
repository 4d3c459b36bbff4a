package plan

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/controllers/kind"
)

func node(name, label string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"l": label}}}
}

// A change reaches a watch like the cluster's events: by type, through the predicates, with the previous and the new
// object.
func TestChangesReachTheWatches(t *testing.T) {
	labels := func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetLabels()["l"]}}}
	}
	never := predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false }}
	created := change{nil, node("a", "x")}
	updated := change{node("a", "x"), node("a", "y")}
	deleted := change{node("a", "y"), nil}
	for name, c := range map[string]struct {
		watch  kind.Watch
		change change
		want   []string
	}{
		"a new object":                 {kind.Of(&corev1.Node{}), created, []string{"a"}},
		"an update, itself":            {kind.Of(&corev1.Node{}), updated, []string{"a"}},
		"an update, mapped":            {kind.Map(&corev1.Node{}, labels), updated, []string{"x", "y"}},
		"a deleted object":             {kind.Map(&corev1.Node{}, labels), deleted, []string{"y"}},
		"another type":                 {kind.Of(&corev1.Pod{}), created, nil},
		"metadata only":                {kind.Of(&corev1.Node{}).MetadataOnly(), deleted, []string{"a"}},
		"a creation that is filtered":  {kind.Of(&corev1.Node{}, never), created, nil},
		"an update that is filtered":   {kind.Of(&corev1.Node{}, never), updated, nil},
		"a deletion that is filtered":  {kind.Of(&corev1.Node{}, never), deleted, nil},
		"the second predicate filters": {kind.Of(&corev1.Node{}, predicate.Funcs{}, never), updated, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var added []string
			q := newQueue(func(name types.NamespacedName) { added = append(added, name.Name) })
			c.change.deliver(t.Context(), c.watch, q)
			c.change.deliver(t.Context(), c.watch, q) // queued names are not queued again
			var taken []string
			for name, ok := q.take(); ok; name, ok = q.take() {
				taken = append(taken, name.Name)
			}
			slices.Sort(added)
			slices.Sort(taken)
			if !slices.Equal(added, c.want) || !slices.Equal(taken, c.want) {
				t.Errorf("added %v, taken %v, want %v", added, taken, c.want)
			}
		})
	}
}
