package trigger

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Updates pass by what differs. Creations and deletions pass unless only changes count, and objects of another type always pass.
func TestChangedPassesWhatDiffers(t *testing.T) {
	renumbered := func(before, after *corev1.Node) bool { return before.Spec.PodCIDR != after.Spec.PodCIDR }
	plain, numbered := &corev1.Node{}, &corev1.Node{Spec: corev1.NodeSpec{PodCIDR: "10.244.0.0/24"}}
	with := func(meta metav1.ObjectMeta) *corev1.Node { return &corev1.Node{ObjectMeta: meta} }
	update := func(before, after client.Object) event.UpdateEvent {
		return event.UpdateEvent{ObjectOld: before, ObjectNew: after}
	}
	labelled := with(metav1.ObjectMeta{Labels: map[string]string{"a": "b"}})
	all, only := Changed(renumbered), OnlyChanged(renumbered)
	for name, c := range map[string]struct{ have, want bool }{
		"a difference":                  {all.Update(update(plain, numbered)), true},
		"no difference":                 {all.Update(update(numbered, numbered)), false},
		"another type":                  {all.Update(update(&metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{})), true},
		"a creation":                    {all.Create(event.CreateEvent{Object: plain}), true},
		"a deletion":                    {all.Delete(event.DeleteEvent{Object: plain}), true},
		"a difference, only changes":    {only.Update(update(plain, numbered)), true},
		"no difference, only changes":   {only.Update(update(plain, plain)), false},
		"a creation, only changes":      {only.Create(event.CreateEvent{Object: plain}), false},
		"a deletion, only changes":      {only.Delete(event.DeleteEvent{Object: plain}), false},
		"labels of any object":          {Changed(LabelsChanged).Update(update(plain, labelled)), true},
		"other metadata of any object":  {Changed(LabelsChanged).Update(update(plain, with(metav1.ObjectMeta{Name: "n1"}))), false},
		"the generation":                {SpecChanged().Update(update(plain, with(metav1.ObjectMeta{Generation: 2}))), true},
		"everything but the generation": {SpecChanged().Update(update(plain, numbered)), false},
	} {
		if c.have != c.want {
			t.Errorf("%s passes: %t, want %t", name, c.have, c.want)
		}
	}
}
