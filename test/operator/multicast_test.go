package operator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

// annotated annotates the namespace default; an empty text removes the annotation.
func (w *world) annotated(text string) *corev1.Namespace {
	w.Helper()
	namespace := &corev1.Namespace{}
	ctx := context.WithoutCancel(w.Context()) // cleanup uses it, too
	w.must(api.Get(ctx, types.NamespacedName{Name: "default"}, namespace))
	patch := client.MergeFrom(namespace.DeepCopy())
	delete(namespace.Annotations, networkv1alpha1.MulticastAnnotation)
	if text != "" {
		namespace.Annotations = map[string]string{networkv1alpha1.MulticastAnnotation: text}
	}
	w.must(api.Patch(ctx, namespace, patch))
	return namespace
}

func (w *world) offerMulticast(policy networkv1alpha1.MulticastPolicy) {
	w.Helper()
	cn := &networkv1alpha1.ClusterNetwork{}
	w.must(api.Get(w.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, cn))
	patch := client.MergeFrom(cn.DeepCopy())
	cn.Spec.Multicast = policy
	w.must(api.Patch(w.Context(), cn, patch))
}

// multicastACLs waits until the database has this number of ACLs for multicast packets.
func (w *world) multicastACLs(want int) {
	w.Helper()
	w.until(func() error {
		found := 0
		for _, row := range w.selectRows()[nbdb.ACLTable] {
			if strings.HasPrefix(fmt.Sprint(row["name"]), "[MC:") {
				found++
			}
		}
		if found != want {
			return fmt.Errorf("%d ACLs for multicast, want %d", found, want)
		}
		return nil
	})
}

// TestWhatMulticastCosts checks that nothing is written for multicast unless the ClusterNetwork offers it, that a request
// of a namespace is one transaction whatever the number of pods, and that a pod is one as before. A restart writes nothing.
func TestWhatMulticastCosts(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1", "n2"}, 10)
	t.Cleanup(func() { w.annotated("") })
	w.annotated("true")
	w.event("default", "MulticastNotOnRequest")
	w.multicastACLs(0)
	w.annotated("")
	w.offerMulticast(networkv1alpha1.MulticastOnRequest)
	w.multicastACLs(4 * 2) // on two switches
	o.settle()
	if got := o.changes(func() { w.annotated("true"); w.multicastACLs(4*2 + 4) }); got != 1 {
		t.Errorf("a request cost %d transactions, want one for its group, its sets and its rules", got)
	}
	if got := o.changes(func() { w.port(w.create("n1", "late")[0]) }); got != 1 {
		t.Errorf("a pod cost %d transactions, want 1", got)
	}
	o.settle()
	o.stop()
	before := w.dump()
	o = w.start()
	w.must(o.engine.Wait(t.Context(), func() (bool, error) {
		return o.engine.Connected() && o.engine.Wanted(topology.MulticastKey("default")), nil
	}))
	o.settle()
	if got := o.transactions(); got != 0 {
		t.Errorf("a restart with multicast wrote %d transactions", got)
	}
	w.same(before)
	w.annotated("yes")
	w.event("default", networkv1alpha1.ReasonInvalidAnnotation)
	w.multicastACLs(4 * 2)
	w.offerMulticast(networkv1alpha1.MulticastFlood)
	w.multicastACLs(0)
	if got := o.drifted(); len(got) > 0 {
		t.Errorf("reported as drift: %v", got)
	}
}

// TestPlanOfMulticast checks that a plan shows the rows of a request, and that of the ClusterNetwork that offers it.
func TestPlanOfMulticast(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1"}, 2)
	t.Cleanup(func() { w.annotated("") })
	cn := &networkv1alpha1.ClusterNetwork{}
	w.must(api.Get(t.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, cn))
	cn.Spec.Multicast = networkv1alpha1.MulticastOnRequest
	w.must(api.Update(t.Context(), cn, client.DryRunAll)) // its generation rises
	w.comesTrue(o.plan([]string{"plan"}, cn), func() string {
		w.offerMulticast(networkv1alpha1.MulticastOnRequest)
		w.multicastACLs(4)
		return ""
	})
	namespace := &corev1.Namespace{}
	w.must(api.Get(t.Context(), types.NamespacedName{Name: "default"}, namespace))
	namespace.Annotations = map[string]string{networkv1alpha1.MulticastAnnotation: "true"}
	w.comesTrue(o.plan([]string{"plan"}, namespace), func() string {
		w.annotated("true")
		w.multicastACLs(4 + 4)
		return ""
	})
}
