package node

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// counted counts lists.
type counted struct {
	client.Reader
	lists int
}

func (c *counted) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.lists++
	return c.Reader.List(ctx, list, options...)
}

// A cache that lacks the last writes of the process before must not decide what nobody has; one that has them needs no help.
func TestWhatNobodyHasIsChosenPastACacheThatIsBehind(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := networkv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	store := func(names ...string) client.Client {
		b := fake.NewClientBuilder().WithScheme(scheme)
		for _, name := range names {
			b = b.WithObjects(&networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
		}
		return b.Build()
	}
	live := &counted{Reader: store("a", "b")}
	r := &Reconciler{Client: store("a"), Live: live}
	look := func(want, lists int) {
		t.Helper()
		others, err := r.others(t.Context(), "new")
		if err != nil || len(others) != want || live.lists != lists {
			t.Errorf("%d others (%v) and %d lists past the cache, want %d and %d", len(others), err, live.lists, want, lists)
		}
	}
	look(2, 1)
	look(2, 2) // the cache is behind yet
	r.Client = store("a", "b")
	look(2, 3)
	look(2, 3)
}
