package kind

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Awaited is what a pod waits for. One field is set: a Node or a Network, of which it needs an address, an IPPool, or Port, a floating
// address that the port of another pod still has.
type Awaited struct {
	Node, Network, Pool string
	Port                netip.Addr
}

// Waiters records which pods wait for what. The zero value is empty. It is safe for concurrent use.
type Waiters struct {
	mu   sync.Mutex
	pods map[Awaited]map[types.NamespacedName]struct{}
	of   map[types.NamespacedName]map[Awaited]struct{}
}

// Wait records a pod that waits. What became free before enqueued no pod, so the caller tries once more.
func (w *Waiters) Wait(pod types.NamespacedName, on Awaited) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods == nil {
		w.pods, w.of = map[Awaited]map[types.NamespacedName]struct{}{}, map[types.NamespacedName]map[Awaited]struct{}{}
	}
	put(w.pods, on, pod)
	put(w.of, pod, on)
}

// Leave removes a pod that no longer waits for anything.
func (w *Waiters) Leave(pod types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for on := range w.of[pod] {
		cut(w.pods, on, pod)
	}
	delete(w.of, pod)
}

// Wake removes and returns the pods that wait for something. A pod that does not get it waits again.
func (w *Waiters) Wake(on Awaited) []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	woken := slices.Collect(maps.Keys(w.pods[on]))
	for _, pod := range woken {
		cut(w.of, pod, on)
	}
	delete(w.pods, on)
	return woken
}

// ForPools returns the pods of a namespace that wait for an address of an IPPool.
func (w *Waiters) ForPools(namespace string) (found []types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for pod, all := range w.of {
		for on := range all {
			if pod.Namespace == namespace && on.Pool != "" {
				found = append(found, pod)
				break
			}
		}
	}
	return found
}

// CopyTo makes to, which nobody uses yet, a copy.
func (w *Waiters) CopyTo(to *Waiters) {
	w.mu.Lock()
	defer w.mu.Unlock()
	to.pods, to.of = clone(w.pods), clone(w.of)
}

func clone[K, V comparable](sets map[K]map[V]struct{}) map[K]map[V]struct{} {
	copied := make(map[K]map[V]struct{}, len(sets))
	for key, set := range sets {
		copied[key] = maps.Clone(set)
	}
	return copied
}

func put[K, V comparable](sets map[K]map[V]struct{}, key K, value V) {
	if sets[key] == nil {
		sets[key] = map[V]struct{}{}
	}
	sets[key][value] = struct{}{}
}

func cut[K, V comparable](sets map[K]map[V]struct{}, key K, value V) {
	if delete(sets[key], value); len(sets[key]) == 0 {
		delete(sets, key)
	}
}
