package podports

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// held is what a pod has on a Network.
type held struct {
	network string
	// owner is the owner in the network's allocator.
	owner  string
	ifName string
}

// ownerOf names an attachment in a network's allocator. The hash of the request makes a changed request another owner, so that it gets
// what it requests now.
func ownerOf(pod types.NamespacedName, uid, ifName, hash string) string {
	return strings.Join([]string{pod.Namespace, pod.Name, uid, ifName, hash}, "/")
}

// userName returns the pod and interface of an owner in a network's allocator: "demo/web@net1".
func userName(owner string) string {
	const parts = 5
	if part := strings.Split(owner, "/"); len(part) == parts {
		return part[0] + "/" + part[1] + "@" + part[3]
	}
	return owner
}

// podOf returns the name of the pod of an owner in a network's allocator.
func podOf(owner string) string {
	if part := strings.Split(owner, "/"); len(part) > 1 {
		return part[1]
	}
	return ""
}

// holders remembers which attachments each pod has, and which pods wait for an address of a Network. The zero value is empty.
type holders struct {
	mu      sync.Mutex
	byPod   map[types.NamespacedName]map[held]struct{}
	waiting map[string]map[types.NamespacedName]struct{} // network -> pods
}

func (h *holders) add(pod types.NamespacedName, a held) (added bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byPod == nil {
		h.byPod = map[types.NamespacedName]map[held]struct{}{}
	}
	if h.byPod[pod] == nil {
		h.byPod[pod] = map[held]struct{}{}
	}
	_, had := h.byPod[pod][a]
	h.byPod[pod][a] = struct{}{}
	return !had
}

func (h *holders) has(pod types.NamespacedName, a held) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, has := h.byPod[pod][a]
	return has
}

// of returns what a pod has.
func (h *holders) of(pod types.NamespacedName) []held {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.byPod[pod]))
}

// networkOf returns the Network on which a pod has the attachment of an owner.
func (h *holders) networkOf(pod types.NamespacedName, owner string) (network string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for a := range h.byPod[pod] {
		if a.owner == owner {
			return a.network, true
		}
	}
	return "", false
}

func (h *holders) remove(pod types.NamespacedName, a held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.byPod[pod], a)
	if len(h.byPod[pod]) == 0 {
		delete(h.byPod, pod)
	}
}

// attached returns the interfaces of pods on a network as "namespace/name@interface", sorted.
func (h *holders) attached(network string) (found []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for pod, all := range h.byPod {
		for a := range all {
			if a.network == network {
				found = append(found, pod.String()+"@"+a.ifName)
			}
		}
	}
	slices.Sort(found)
	return found
}

// wait remembers a pod that found no address on a network.
func (h *holders) wait(network string, pod types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting = map[string]map[types.NamespacedName]struct{}{}
	}
	if h.waiting[network] == nil {
		h.waiting[network] = map[types.NamespacedName]struct{}{}
	}
	h.waiting[network][pod] = struct{}{}
}

// wake returns the pods that wait for an address of a network, and forgets them.
func (h *holders) wake(network string) []types.NamespacedName {
	h.mu.Lock()
	defer h.mu.Unlock()
	woken := slices.Collect(maps.Keys(h.waiting[network]))
	delete(h.waiting, network)
	return woken
}

func (h *holders) copyTo(to *holders) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to.byPod = make(map[types.NamespacedName]map[held]struct{}, len(h.byPod))
	for pod, all := range h.byPod {
		to.byPod[pod] = maps.Clone(all)
	}
}
