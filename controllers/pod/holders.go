package pod

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// holders records which owners in the allocator belong to a pod's name, and which pods wait for an address.
type holders struct {
	mu      sync.Mutex
	owners  map[types.NamespacedName]map[string]struct{} // pod -> owners "<namespace>/<name>/<uid>"
	waiting map[string]map[types.NamespacedName]struct{} // node -> pods without an address
	missed  map[string]struct{}                          // namespaces that were not cached when a pod was reconciled
}

// miss records that a pod's namespace is not cached.
func (h *holders) miss(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.missed == nil {
		h.missed = map[string]struct{}{}
	}
	h.missed[namespace] = struct{}{}
}

// misses reports whether a namespace was missed, and forgets it.
func (h *holders) misses(namespace string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, missed := h.missed[namespace]
	delete(h.missed, namespace)
	return missed
}

func (h *holders) add(pod types.NamespacedName, owner string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.owners == nil {
		h.owners = map[types.NamespacedName]map[string]struct{}{}
	}
	if h.owners[pod] == nil {
		h.owners[pod] = map[string]struct{}{}
	}
	h.owners[pod][owner] = struct{}{}
}

// others reports whether a pod of the name with another UID still holds an address or a port.
func (h *holders) others(pod types.NamespacedName, uid string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for owner := range h.owners[pod] {
		if !strings.HasSuffix(owner, "/"+uid) {
			return true
		}
	}
	return false
}

// take removes and returns the owners of a name, except keep.
func (h *holders) take(pod types.NamespacedName, keep string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var taken []string
	for owner := range h.owners[pod] {
		if owner != keep {
			taken = append(taken, owner)
			delete(h.owners[pod], owner)
		}
	}
	if len(h.owners[pod]) == 0 {
		delete(h.owners, pod)
	}
	return taken
}

// pods lists the pods, also former ones, that have owners.
func (h *holders) pods() []types.NamespacedName {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.owners))
}

// wait records a pod that found no address on a node.
func (h *holders) wait(node string, pod types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting = map[string]map[types.NamespacedName]struct{}{}
	}
	if h.waiting[node] == nil {
		h.waiting[node] = map[types.NamespacedName]struct{}{}
	}
	h.waiting[node][pod] = struct{}{}
}

// leave removes a pod that no longer waits.
func (h *holders) leave(pod types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for node, pods := range h.waiting {
		delete(pods, pod)
		if len(pods) == 0 {
			delete(h.waiting, node)
		}
	}
}

// waitingIn returns the pods of a namespace that wait for an address of an IPPool.
func (h *holders) waitingIn(namespace string) (found []types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, pods := range h.waiting {
		if !strings.HasPrefix(key, waitsFor("")) {
			continue
		}
		for pod := range pods {
			if pod.Namespace == namespace {
				found = append(found, pod)
			}
		}
	}
	return found
}

// wake removes and returns the pods that wait for an address of a node. A pod that finds none waits again.
func (h *holders) wake(node string) []types.NamespacedName {
	h.mu.Lock()
	defer h.mu.Unlock()
	var woken []types.NamespacedName
	for pod := range h.waiting[node] {
		woken = append(woken, pod)
	}
	delete(h.waiting, node)
	return woken
}
