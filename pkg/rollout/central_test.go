package rollout

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/operand"
)

// TestOneBecomesThree: the pod of the only member is replaced, though the others wait for it.
func TestOneBecomesThree(t *testing.T) {
	w := newWorld(t, v1, "n1", "n2", "n3")
	w.members = 3
	w.unready[operand.Central+" "+v1.image()] = true // what is made now
	w.settle()
	p := w.pods["central"]
	if p == nil || p.Annotations[operand.AnnotationMembers] != "3" || w.pods["central3"] == nil {
		t.Fatalf("pods %v, done %q", p, w.done)
	}
}

// TestMembersAreReplacedOneAfterAnother: by another OVN, and only while the others work.
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
		t.Errorf("replaced were %q", members)
	}

	// One of the next version does not become ready: the others stay, and it stops.
	w.done, w.wanted = nil, v1
	w.unready[operand.Central+" "+v1.image()] = true
	w.settle()
	old := 0
	for _, name := range []string{"central", "central2", "central3"} {
		if operand.ImageOf(w.pods[name].Spec) == newOVN.image() {
			old++
		}
	}
	if old != 2 {
		t.Errorf("%d members are as they were, want 2: %q", old, w.done)
	}
	w.now = w.now.Add(6 * 60 * 1e9)
	w.settle()
	w.expect(networkv1alpha1.RolloutStopped)

	// One that is away keeps the others from being replaced, also by a repair.
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
				t.Errorf("%s while central2 is away: %q", one, w.done)
			}
		}
	}
}
