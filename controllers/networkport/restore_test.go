package networkport_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/podcondition"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

// After a start, the attachments of a Network are the ports that exist, whether a pod requests a Network or not. The Network is
// enqueued when they are restored, because its status may hold the count of a previous leader.
func TestAttachmentsAreRestored(t *testing.T) {
	for name, c := range map[string]struct {
		existing []*nbdb.LogicalSwitchPort
		prepare  func(b *kindtest.Bed, pod *corev1.Pod)
		restored int // before the pod is reconciled
		want     int // after it
	}{
		"a pod without a port":     {prepare: func(*kindtest.Bed, *corev1.Pod) {}, want: 1},
		"a pod with its port":      {existing: existingPorts(t), prepare: func(*kindtest.Bed, *corev1.Pod) {}, restored: 1, want: 1},
		"neither pods nor ports":   {prepare: func(b *kindtest.Bed, pod *corev1.Pod) { b.Delete(pod) }},
		"the port of a gone pod":   {existing: existingPorts(t), prepare: func(b *kindtest.Bed, pod *corev1.Pod) { b.Delete(pod) }, restored: 1},
		"a pod without a request":  {existing: existingPorts(t), prepare: withRequests(""), restored: 1},
		"a pod with a new request": {existing: existingPorts(t), prepare: withRequests("blue@data"), restored: 1, want: 1},
		"a pod with two requests":  {existing: existingPorts(t), prepare: withRequests("blue,blue"), restored: 1, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			b, pod := selectedBed(t)
			b.Database.ExistingPorts = c.existing
			c.prepare(b, pod)
			if n, known := attachments(b); known || n != 0 {
				t.Errorf("%d attachments, known: %t before they are restored", n, known)
			}
			if err := b.Env.RestoreNetworks(t.Context()); err != nil {
				t.Fatal(err)
			}
			blue := reconcile.Request{NamespacedName: types.NamespacedName{Name: "blue"}}
			if requests := b.Env.Triggers.Of(topology.KindPodNetwork).Take(); !slices.Contains(requests, blue) {
				t.Errorf("restored, enqueued %v", requests)
			}
			if n, known := attachments(b); !known || n != c.restored {
				t.Errorf("%d attachments, known: %t, want %d", n, known, c.restored)
			}
			outcome := b.Reconcile("demo", "web")
			if n, _ := attachments(b); n != c.want {
				t.Errorf("%d attachments after the pod's reconciliation, want %d", n, c.want)
			}
			if changed := c.want != c.restored; changed && !slices.Contains(outcome.Enqueued, "podnetwork blue") {
				t.Errorf("the count changed, enqueued %v", outcome.Enqueued)
			}
		})
	}
}

// existingPorts returns the ports of the pod demo/web, as a previous leader made them.
func existingPorts(t *testing.T) (found []*nbdb.LogicalSwitchPort) {
	t.Helper()
	b, _ := selectedBed(t)
	b.Reconcile("demo", "web")
	rows, _ := b.Database.RowsOf(web)
	for _, row := range rows {
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

// The database may lose the port of a pod whose Network is invalid: before this process has applied it, or with the Network's switch,
// which nobody can make again. The pod's condition says so, unless the database is away.
func TestALostPortOnAnInvalidNetworkIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		applied bool // by this process
		lost    func(db *kindtest.Database)
		want    bool
	}{
		"not applied":       {lost: func(*kindtest.Database) {}, want: true},
		"not applied, away": {lost: func(db *kindtest.Database) { db.Away = true }},
		"applied, away":     {applied: true, lost: func(db *kindtest.Database) { db.Away = true }},
		"applied":           {applied: true, lost: func(*kindtest.Database) {}},
		"without its switch": {applied: true, want: true, lost: func(db *kindtest.Database) {
			db.Refusals[web] = &ovndb.PendingError{Unit: web, Absent: unit.Ref{Table: nbdb.LogicalSwitchTable, UUID: "s"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := selectedBed(t)
			if c.applied {
				b.Reconcile("demo", "web")
			} else {
				b.Database.ExistingPorts = existingPorts(t)
			}
			if err := b.Env.RestoreNetworks(t.Context()); err != nil {
				t.Fatal(err)
			}
			blue := kindtest.Get(b, &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue"}})
			blue.Spec.ExcludeSubnets = []networkv1alpha1.CIDR{"192.0.2.0/24"}
			b.Update(blue)
			c.lost(b.Database)
			b.Reconcile("demo", "web")
			pod := kindtest.Get(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}})
			condition := podcondition.Find(pod, networkv1alpha1.PodNetworksAllocated)
			if got := condition != nil && condition.Status == corev1.ConditionFalse; got != c.want {
				t.Errorf("the condition is %+v, want one: %t", condition, c.want)
			}
		})
	}
}

// A port whose address is another pod's by now, and for which no address is left, goes and does not count any more.
func TestAnAttachmentWithoutItsAddressGoes(t *testing.T) {
	ports := existingPorts(t)
	other := *ports[0]
	other.Name, other.ExternalIDs = "blue_demo_other_net1", map[string]string{unit.OwnerKey: "podports/demo/other"}
	b, _ := selectedBed(t)
	b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{&other, ports[0]}
	blue := kindtest.Get(b, &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue"}})
	blue.Spec.ExcludeSubnets = []networkv1alpha1.CIDR{"10.100.0.0/24"}
	b.Update(blue)
	if err := b.Env.RestoreNetworks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, _ := attachments(b); n != 2 {
		t.Errorf("%d attachments of 2 ports", n)
	}
	outcome := b.Reconcile("demo", "web")
	if lines := outcome.Units[web]; len(lines) > 0 {
		t.Errorf("demo/web has %q", lines)
	}
	if n, _ := attachments(b); n != 1 || !slices.Contains(outcome.Enqueued, "podnetwork blue") {
		t.Errorf("%d attachments of one port, enqueued %v", n, outcome.Enqueued)
	}
}

func withRequests(text string) func(*kindtest.Bed, *corev1.Pod) {
	return func(b *kindtest.Bed, pod *corev1.Pod) {
		pod.Annotations = map[string]string{networks.Annotation: text}
		b.Update(pod)
	}
}
