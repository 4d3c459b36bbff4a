package node

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// A NodeNetwork whose Node only the API server has belongs to a new node. A NodeNetwork of an earlier Node of the name goes.
func TestNodeNetworkStaysWhileTheCacheLacksItsNode(t *testing.T) {
	live := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-n1"}}
	for uid, stays := range map[types.UID]bool{"uid-n1": true, "uid-earlier": false} {
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{networkv1alpha1.AddToScheme, corev1.AddToScheme} {
			if err := add(scheme); err != nil {
				t.Fatal(err)
			}
		}
		owned := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1", OwnerReferences: []metav1.OwnerReference{
			ownerOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: uid}})}}}
		cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(owned).Build()
		r := &Reconciler{Client: cache, Live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(live).Build(),
			Database: applied{}, Addresses: tenants{}, Triggers: &trigger.Set{}, Floating: claim.New(cache, cache, time.Now),
			AddressesLost: &kind.Topic[[]alloc.Owner]{}, Wildcards: noWildcards}
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n1"}})
		if err != nil {
			t.Fatal(err)
		}
		err = cache.Get(t.Context(), types.NamespacedName{Name: "n1"}, &networkv1alpha1.NodeNetwork{})
		if client.IgnoreNotFound(err) != nil || (err == nil) != stays || (result.RequeueAfter > 0) != stays {
			t.Errorf("of the Node %s: %v, again after %s; it stays: %t", uid, err, result.RequeueAfter, stays)
		}
	}
}

// counted counts calls of List.
type counted struct {
	client.Reader
	lists int
}

func (c *counted) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.lists++
	return c.Reader.List(ctx, list, options...)
}

// A cache that lacks the last writes of an earlier process must not decide what is free. A cache that has them is
// sufficient.
func TestFreeValuesAreChosenPastACacheThatIsBehind(t *testing.T) {
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
	check := func(want, lists int) {
		t.Helper()
		others, err := r.others(t.Context(), "new")
		if err != nil || len(others) != want || live.lists != lists {
			t.Errorf("%d others (%v) and %d lists past the cache, want %d and %d", len(others), err, live.lists, want, lists)
		}
	}
	check(2, 1)
	check(2, 2) // the cache is behind yet
	r.Client = store("a", "b")
	check(2, 3)
	check(2, 3)
}
