package operand

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

// A confirmed removal without pods is about to begin when the deletion is cancelled. Nothing is removed.
func TestARemovalTakenBackAtItsBeginning(t *testing.T) {
	for name, back := range map[string]func(ctx context.Context, api client.Client, cn *networkv1alpha1.ClusterNetwork) error{
		"the confirmation": func(ctx context.Context, api client.Client, cn *networkv1alpha1.ClusterNetwork) error {
			cn.Annotations = nil
			return api.Update(ctx, cn)
		},
		"the finalizer": func(ctx context.Context, api client.Client, cn *networkv1alpha1.ClusterNetwork) error {
			cn.Finalizers = nil
			return api.Update(ctx, cn)
		},
		"the finalizer, and it is made again": func(ctx context.Context, api client.Client, cn *networkv1alpha1.ClusterNetwork) error {
			cn.Finalizers = nil
			if err := api.Update(ctx, cn); err != nil {
				return err
			}
			return api.Create(ctx, &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: cn.Name, UID: "b"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, networkv1alpha1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			now := metav1.Now()
			cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "a",
				DeletionTimestamp: &now, Finalizers: []string{render.Finalizer},
				Annotations: map[string]string{networkv1alpha1.ConfirmRemovalAnnotation: "a"}}}
			agents := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "weft-system", Name: render.Agents}}
			late := false
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cn,
				agents).WithStatusSubresource(cn).WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, api client.Client, sub string, o client.Object,
					patch client.Patch, options ...client.SubResourcePatchOption) error {
					if !late {
						late = true
						have := &networkv1alpha1.ClusterNetwork{}
						if err := api.Get(ctx, client.ObjectKeyFromObject(cn), have); err != nil {
							return err
						}
						if err := back(ctx, api, have); err != nil {
							return err
						}
					}
					return api.SubResource(sub).Patch(ctx, o, patch, options...)
				}}).Build()
			r := &Reconciler{Client: api, Live: withoutFields{api}, Events: events.NewFakeRecorder(9),
				Facts: render.Facts{Namespace: "weft-system"}}
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cn)}); err == nil || !late {
				t.Errorf("the removal began: %v", err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(agents), agents); err != nil || !agents.DeletionTimestamp.IsZero() {
				t.Errorf("the agents are gone: %v", err)
			}
		})
	}
}

// withoutFields lists without field selectors, which the fake client does not support.
type withoutFields struct{ client.Reader }

func (w withoutFields) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return w.Reader.List(ctx, list)
}

// While the cache does not have the last write of this process, nothing is written again.
func TestACacheThatIsBehindWritesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		uid, version string
		age          time.Duration
		behind       bool
	}{
		"current": {"u1", "12", 0, false}, "newer": {"u1", "13", 0, false}, "behind": {"u1", "9", 0, true},
		"another object": {"u2", "9", 0, false}, "etcd was restored": {"u1", "9", maxBehind + time.Second, false},
	} {
		r := &Reconciler{}
		r.latest.uid, r.latest.version, r.latest.at = "u1", "12", time.Now().Add(-c.age)
		cached := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{UID: types.UID(c.uid), ResourceVersion: c.version}}
		if got := r.isBehind(cached); got != c.behind {
			t.Errorf("%s: behind is %t", name, got)
		}
	}
}
