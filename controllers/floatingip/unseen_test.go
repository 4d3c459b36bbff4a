package floatingip

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/test/kindtest"
)

// An address whose pod or pool only the API server has is reconciled again, because an interrupted watch never says that the object is
// deleted. Then the address is free.
func TestObjectsThatTheCacheNeverHas(t *testing.T) {
	const name = "192.0.2.15"
	held := networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkv1alpha1.FloatingIPSpec{Address: name,
		Pool: "web", Holder: &networkv1alpha1.FloatingIPHolder{Namespace: "demo", Pod: "bare-0", PodUID: "u1"}}}
	free := held
	free.Spec.Holder = nil
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "bare-0", UID: "u1"}}
	for text, c := range map[string]struct {
		f      networkv1alpha1.FloatingIP
		unseen client.Object
		is     func(*networkv1alpha1.FloatingIP, error) bool // released
	}{
		"pod":  {held, pod, func(f *networkv1alpha1.FloatingIP, err error) bool { return err == nil && f.Spec.Holder == nil }},
		"pool": {free, aPool("NAT", "192.0.2.15"), func(_ *networkv1alpha1.FloatingIP, err error) bool { return apierrors.IsNotFound(err) }},
	} {
		t.Run(text, func(t *testing.T) {
			var live client.WithWatch
			f := c.f
			b := kindtest.New(t, Kinds, KindFloatingIP, func(env *kind.Env) {
				live = fake.NewClientBuilder().WithScheme(env.Client.Scheme()).WithObjects(c.unseen).Build()
				env.Floating.Live = live
			}, &f)
			o := b.Reconcile("", name)
			if o.Err != "" || o.Result.RequeueAfter != unseen || len(o.Writes) > 0 {
				t.Errorf("while the API server has the %s: %+v", text, o)
			}
			if err := live.Delete(t.Context(), c.unseen); err != nil {
				t.Fatal(err)
			}
			if o := b.Reconcile("", name); o.Err != "" || o.Result.RequeueAfter != 0 {
				t.Errorf("after the %s was deleted: %+v", text, o)
			}
			after := &networkv1alpha1.FloatingIP{}
			err := b.API.Get(t.Context(), client.ObjectKey{Name: name}, after)
			if !c.is(after, err) {
				t.Errorf("the address is not free: %+v (%v)", after.Spec, err)
			}
		})
	}
}
