package rollout

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

// TestOneBecomesThree expects the pod of the only member to be replaced although the others are not ready: they wait
// for it.
func TestOneBecomesThree(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2", "n3")
	w.members = 3
	w.unready[render.Central+" "+v1.image()] = true // pods created from now on
	w.settle()
	p := w.pods["central"]
	if p == nil || p.Annotations[render.AnnotationMembers] != "3" || w.pods["central3"] == nil {
		t.Fatalf("pods %v, steps %q", p, w.done)
	}
}

// TestMembersAreReplacedOneAfterAnother upgrades OVN and expects each member to be replaced only while the others are
// ready.
func TestMembersAreReplacedOneAfterAnother(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2", "n3")
	w.members = 3
	w.settle()
	w.done, w.wanted = nil, newOVN
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	var members []string
	for _, one := range w.done {
		for _, name := range []string{"central", "central2", "central3"} {
			if one == "replace "+name {
				members = append(members, name)
			}
		}
	}
	if len(members) != 3 || members[0] == members[1] || members[1] == members[2] || members[0] == members[2] {
		t.Errorf("replaced members %q", members)
	}

	// A new member does not become ready: the others stay, and the rollout stops.
	w.done, w.wanted = nil, v1
	w.unready[render.Central+" "+v1.image()] = true
	w.settle()
	old := 0
	for _, name := range []string{"central", "central2", "central3"} {
		if render.ImageOf(w.pods[name].Spec) == newOVN.image() {
			old++
		}
	}
	if old != 2 {
		t.Errorf("%d members have the old image, want 2: %q", old, w.done)
	}
	w.now = w.now.Add(6 * 60 * 1e9)
	w.settle()
	w.expect(networkv1alpha1.RolloutStopped)

	// While a member is not ready, no other is replaced, not even by a repair.
	w = newWorld(t, v1, "n1", "n2", "n3")
	w.members = 3
	w.settle()
	w.pods["central2"].Status.Conditions[0].Status = corev1.ConditionFalse
	w.done, w.wanted = nil, newOVN
	for range 20 {
		w.turn()
	}
	for _, one := range w.done {
		if one == "replace central" || one == "replace central3" {
			if ready := w.pods["central2"].Status.Conditions[0].Status; ready != corev1.ConditionTrue {
				t.Errorf("%s while central2 is not ready: %q", one, w.done)
			}
		}
	}
}
