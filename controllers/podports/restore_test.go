package podports_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

// After a start, the attachments of a Network are the ports that exist, whether a pod requests a Network or not. The Network is
// enqueued when they are restored, because its status may hold the count of a previous leader.
func TestAttachmentsAreRestored(t *testing.T) {
	ports := func(t *testing.T) []*nbdb.LogicalSwitchPort { // of the pod demo/web, as the previous leader made them
		b, _ := selectedBed(t)
		b.Reconcile("demo", "web")
		var found []*nbdb.LogicalSwitchPort
		for _, row := range b.Database.RowsOf(web) {
			if port, ok := row.Model.(*nbdb.LogicalSwitchPort); ok {
				port.ExternalIDs[unit.OwnerKey] = string(web)
				found = append(found, port)
			}
		}
		if len(found) != 1 {
			t.Fatalf("demo/web has %d ports", len(found))
		}
		return found
	}
	for name, c := range map[string]struct {
		existing []*nbdb.LogicalSwitchPort
		prepare  func(b *kindtest.Bed, pod *corev1.Pod)
		restored int // before the pod is reconciled
		want     int // after it
	}{
		"a pod without a port":     {prepare: func(*kindtest.Bed, *corev1.Pod) {}, want: 1},
		"a pod with its port":      {existing: ports(t), prepare: func(*kindtest.Bed, *corev1.Pod) {}, restored: 1, want: 1},
		"neither pods nor ports":   {prepare: func(b *kindtest.Bed, pod *corev1.Pod) { b.Delete(pod) }},
		"the port of a gone pod":   {existing: ports(t), prepare: func(b *kindtest.Bed, pod *corev1.Pod) { b.Delete(pod) }, restored: 1},
		"a pod without a request":  {existing: ports(t), prepare: withRequests(""), restored: 1},
		"a pod with a new request": {existing: ports(t), prepare: withRequests("blue@data"), restored: 1, want: 1},
		"a pod with two requests":  {existing: ports(t), prepare: withRequests("blue,blue"), restored: 1, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			b, pod := selectedBed(t)
			b.Database.ExistingPorts = c.existing
			c.prepare(b, pod)
			if n, known := b.Env.Attached("blue"); known || n != 0 {
				t.Errorf("%d attachments, known: %t before they are restored", n, known)
			}
			if err := b.Env.RestoreNetworks(t.Context()); err != nil {
				t.Fatal(err)
			}
			blue := reconcile.Request{NamespacedName: types.NamespacedName{Name: "blue"}}
			if requests := b.Env.Triggers.Of(topology.KindPodNetwork).Take(); !slices.Contains(requests, blue) {
				t.Errorf("restored, enqueued %v", requests)
			}
			if n, known := b.Env.Attached("blue"); !known || n != c.restored {
				t.Errorf("%d attachments, known: %t, want %d", n, known, c.restored)
			}
			outcome := b.Reconcile("demo", "web")
			if n, _ := b.Env.Attached("blue"); n != c.want {
				t.Errorf("%d attachments after the pod's reconciliation, want %d", n, c.want)
			}
			if changed := c.want != c.restored; changed && !slices.Contains(outcome.Enqueued, "podnetwork blue") {
				t.Errorf("the count changed, enqueued %v", outcome.Enqueued)
			}
		})
	}
}

func withRequests(text string) func(*kindtest.Bed, *corev1.Pod) {
	return func(b *kindtest.Bed, pod *corev1.Pod) {
		pod.Annotations = map[string]string{networks.Annotation: text}
		b.Update(pod)
	}
}
