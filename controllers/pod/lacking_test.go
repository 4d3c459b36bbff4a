package pod

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// A node changes with the first pod that lacks an address and with the last.
func TestPodsThatLackAnAddress(t *testing.T) {
	a, b := types.NamespacedName{Namespace: "demo", Name: "a"}, types.NamespacedName{Namespace: "demo", Name: "b"}
	var l lacking
	for i, step := range []struct {
		pod     types.NamespacedName
		node    string
		changed []string
		n1, n2  bool
	}{
		{a, "", nil, false, false},
		{a, "n1", []string{"n1"}, true, false},
		{a, "n1", nil, true, false},
		{b, "n1", nil, true, false},
		{a, "", nil, true, false},
		{b, "n2", []string{"n1", "n2"}, false, true}, // recreated there
		{b, "", []string{"n2"}, false, false},
		{b, "", nil, false, false},
	} {
		if got := l.set(step.pod, step.node); !slices.Equal(got, step.changed) || l.on("n1") != step.n1 || l.on("n2") != step.n2 {
			t.Errorf("step %d changed %v, and pods lack addresses on n1: %t, on n2: %t", i, got, l.on("n1"), l.on("n2"))
		}
	}
}
