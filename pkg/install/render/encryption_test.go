package render

import "testing"

// TestIKEIsAWorkloadOfItsOwn checks that encryption adds one workload, and changes no other.
func TestIKEIsAWorkloadOfItsOwn(t *testing.T) {
	f := facts()
	without := map[string]string{}
	for _, w := range workloads(t, f) {
		without[w.GetName()] = w.GetAnnotations()[AnnotationApplied]
	}
	if without[IKE] != "" {
		t.Errorf("%s exists without encryption", IKE)
	}
	f.Encrypted = true
	found := false
	for _, w := range workloads(t, f) {
		if w.GetName() == IKE {
			found = true
			if grace := Template(w).Spec.TerminationGracePeriodSeconds; grace == nil || *grace != 0 {
				t.Errorf("the daemon removes the policies when it ends: it has %v seconds for that", grace)
			}
			continue
		}
		if without[w.GetName()] != w.GetAnnotations()[AnnotationApplied] {
			t.Errorf("%s differs with encryption", w.GetName())
		}
	}
	if !found {
		t.Errorf("%s is missing", IKE)
	}
}
