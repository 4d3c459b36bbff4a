package pod

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
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

func TestPodsThatWaitInANamespace(t *testing.T) {
	var h holders
	for key, pod := range map[string]types.NamespacedName{
		waitsFor("web"):   {Namespace: "a", Name: "p"},
		waitsFor("other"): {Namespace: "a", Name: "q"},
		"n1":              {Namespace: "a", Name: "of a node"},
		waitsForPort(netip.MustParseAddr("203.0.113.1")): {Namespace: "a", Name: "of a port"},
		waitsFor("far"): {Namespace: "b", Name: "elsewhere"},
	} {
		h.wait(key, pod)
	}
	found := h.waitingIn("a")
	slices.SortFunc(found, func(x, y types.NamespacedName) int { return strings.Compare(x.Name, y.Name) })
	if want := []types.NamespacedName{{Namespace: "a", Name: "p"}, {Namespace: "a", Name: "q"}}; !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	if len(h.wake(waitsFor("web"))) != 1 {
		t.Error("the pod does not wait any more")
	}
}
