package podports

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
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

// parts is the number of parts of an owner.
const parts = 5

// userName returns the pod and interface of an owner in a network's allocator: "demo/web@net1".
func userName(owner string) string {
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

// isPortOf reports whether a row is the port of an attachment of a pod.
func (h held) isPortOf(pod types.NamespacedName, row unit.Row) bool {
	port, ok := row.Model.(*nbdb.LogicalSwitchPort)
	part := strings.Split(h.owner, "/")
	return ok && len(part) == parts && port.ExternalIDs[ovnexpr.RequestKey] == part[4] &&
		port.UUID == topology.NetworkPortUUID(names.NetworkPort(h.network, pod.Namespace, pod.Name, h.ifName), part[2])
}

// holders remembers which attachments each pod has, and which pods wait for an address of a Network. The zero value is empty.
type holders struct {
	mu sync.Mutex
	// byPod says of each attachment whether the database has its port. A pod keeps the addresses of a port that was lost.
	byPod map[types.NamespacedName]map[held]bool
	// on counts the attachments in byPod with a port: network -> namespace -> attachments.
	on      map[string]map[string]int
	waiting map[string]map[types.NamespacedName]struct{} // network -> pods
}

// add records an attachment with a port. added is false if it was recorded with one.
func (h *holders) add(pod types.NamespacedName, a held) (added bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byPod == nil {
		h.byPod, h.on = map[types.NamespacedName]map[held]bool{}, map[string]map[string]int{}
	}
	if h.byPod[pod] == nil {
		h.byPod[pod] = map[held]bool{}
	}
	if h.byPod[pod][a] {
		return false
	}
	h.byPod[pod][a] = true
	h.count(pod, a, 1)
	return true
}

// keep records an attachment whose port the database has lost, unless the attachment is recorded.
func (h *holders) keep(pod types.NamespacedName, a held) {
	if h.add(pod, a) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.byPod[pod][a] = false
		h.count(pod, a, -1)
	}
}

// count adds to the number of attachments of a namespace on a Network. The caller holds mu.
func (h *holders) count(pod types.NamespacedName, a held, attachments int) {
	if h.on[a.network] == nil {
		h.on[a.network] = map[string]int{}
	}
	h.on[a.network][pod.Namespace] += attachments
	if h.on[a.network][pod.Namespace] == 0 {
		delete(h.on[a.network], pod.Namespace)
	}
	if len(h.on[a.network]) == 0 {
		delete(h.on, a.network)
	}
}

// found records which attachments of a pod have one of the ports in rows. It returns the Networks whose count has changed.
func (h *holders) found(pod types.NamespacedName, rows []unit.Row) (changed []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for a, had := range h.byPod[pod] {
		has := slices.ContainsFunc(rows, func(row unit.Row) bool { return a.isPortOf(pod, row) })
		if had == has {
			continue
		}
		h.byPod[pod][a] = has
		if changed = append(changed, a.network); has {
			h.count(pod, a, 1)
		} else {
			h.count(pod, a, -1)
		}
	}
	return changed
}

// hasPort reports whether a pod has a port for the attachment of an owner.
func (h *holders) hasPort(pod types.NamespacedName, owner string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for a, has := range h.byPod[pod] {
		if a.owner == owner {
			return has
		}
	}
	return false
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
	hasPort := h.byPod[pod][a]
	if delete(h.byPod[pod], a); len(h.byPod[pod]) == 0 {
		delete(h.byPod, pod)
	}
	if hasPort {
		h.count(pod, a, -1)
	}
}

// pods lists the pods that have attachments.
func (h *holders) pods() []types.NamespacedName {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.byPod))
}

// attached counts the attachments of pods on a Network, by namespace.
func (h *holders) attached(network string) map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.on[network])
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
	to.byPod = make(map[types.NamespacedName]map[held]bool, len(h.byPod))
	for pod, all := range h.byPod {
		to.byPod[pod] = maps.Clone(all)
	}
	to.on = make(map[string]map[string]int, len(h.on))
	for network, byNamespace := range h.on {
		to.on[network] = maps.Clone(byNamespace)
	}
}
