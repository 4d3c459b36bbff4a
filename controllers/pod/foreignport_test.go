package pod

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// A pod gets its host port at an address when its node has the address: by its Node, or on a further link by its NodeNetwork.
func TestAHostPortWaitsForItsAddress(t *testing.T) {
	bare := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	listed := bare.DeepCopy()
	listed.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.9"}}
	silent := onNode("10.244.0.0/24")
	reporting := silent.DeepCopy()
	reporting.Status.HostAddresses = []networkv1alpha1.IP{"192.0.2.9"}
	for name, c := range map[string]struct{ before, after client.Object }{
		"the Node lists it":        {bare, listed},
		"the NodeNetwork lists it": {silent, reporting},
	} {
		t.Run(name, func(t *testing.T) {
			pod := aPod(withHostPort(corev1.ContainerPort{ContainerPort: 80, HostPort: 8443, HostIP: "192.0.2.9"}))
			b := newBed(t, bare.DeepCopy(), silent.DeepCopy(), pod)
			isMapped := func() bool {
				return slices.ContainsFunc(b.Reconcile("demo", "web").Units[web], func(line string) bool {
					return strings.Contains(line, "vips=map[192.0.2.9:8443:10.244.0.3:80]")
				})
			}
			if isMapped() {
				t.Error("the host port is served at an address that the node does not have")
			}
			b.Update(c.after.DeepCopyObject().(client.Object))
			if !isMapped() {
				t.Error("the host port is not served at the node's address")
			}
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			update := event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}
			for _, w := range b.Kinds[0].Watches {
				of, err := b.API.GroupVersionKindFor(w.Object)
				if kind, _ := b.API.GroupVersionKindFor(c.after); err == nil && of == kind && predicate.And(w.Predicates...).Update(update) {
					w.Handler.Update(t.Context(), update, queue)
				}
			}
			if queue.Len() != 1 {
				t.Errorf("%d requests when the addresses change, want the pod's", queue.Len())
			}
		})
	}
}
