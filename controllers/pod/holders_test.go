package pod

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestDeletedPodsDoNotWait: C8. On a node that stays full, pods are created, wait and are deleted.
func TestDeletedPodsDoNotWait(t *testing.T) {
	var h holders
	stays := types.NamespacedName{Namespace: "demo", Name: "stays"}
	h.wait("n1", stays)
	for i := range 10_000 {
		pod := types.NamespacedName{Namespace: "demo", Name: fmt.Sprint(i)}
		h.wait(fmt.Sprintf("n%d", i%3), pod)
		h.leave(pod)
	}
	if len(h.waiting) != 1 || len(h.waiting["n1"]) != 1 {
		t.Errorf("%d nodes are waited for, %d pods on n1", len(h.waiting), len(h.waiting["n1"]))
	}
	if woken := h.wake("n1"); len(woken) != 1 || woken[0] != stays {
		t.Errorf("woken are %v", woken)
	}
}
