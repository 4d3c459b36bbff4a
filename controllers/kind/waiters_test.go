package kind

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
	var w Waiters
	stays := types.NamespacedName{Namespace: "demo", Name: "stays"}
	w.Wait(stays, Awaited{Node: "n1"})
	for i := range 10_000 {
		pod := types.NamespacedName{Namespace: "demo", Name: fmt.Sprint(i)}
		w.Wait(pod, Awaited{Node: fmt.Sprintf("n%d", i%3)})
		w.Wait(pod, Awaited{Pool: "web"})
		w.Leave(pod)
	}
	if len(w.pods) != 1 || len(w.pods[Awaited{Node: "n1"}]) != 1 || len(w.of) != 1 {
		t.Errorf("%d are waited for, %d pods wait", len(w.pods), len(w.of))
	}
	if woken := w.Wake(Awaited{Node: "n1"}); len(woken) != 1 || woken[0] != stays || len(w.pods)+len(w.of) != 0 {
		t.Errorf("woken are %v; %d are still waited for, %d pods wait", woken, len(w.pods), len(w.of))
	}
}

func TestPodsThatWaitForPools(t *testing.T) {
	var w Waiters
	for on, pod := range map[Awaited]types.NamespacedName{
		{Pool: "web"}:   {Namespace: "a", Name: "p"},
		{Pool: "more"}:  {Namespace: "a", Name: "p"},
		{Pool: "other"}: {Namespace: "a", Name: "q"},
		{Node: "n1"}:    {Namespace: "a", Name: "of a node"},
		{Port: netip.MustParseAddr("203.0.113.1")}: {Namespace: "a", Name: "of a port"},
		{Pool: "far"}: {Namespace: "b", Name: "elsewhere"},
	} {
		w.Wait(pod, on)
	}
	found := w.ForPools("a")
	slices.SortFunc(found, func(x, y types.NamespacedName) int { return strings.Compare(x.Name, y.Name) })
	if want := []types.NamespacedName{{Namespace: "a", Name: "p"}, {Namespace: "a", Name: "q"}}; !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	var copied Waiters
	w.CopyTo(&copied)
	if len(copied.Wake(Awaited{Pool: "web"})) != 1 || len(w.Wake(Awaited{Pool: "web"})) != 1 || len(w.Wake(Awaited{Pool: "web"})) != 0 {
		t.Error("the pod waits once, and in the copy by itself")
	}
}
