package networkport

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ipam/alloc"
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
	owner alloc.Owner
}

// userName returns the pod and interface of an attachment, "demo/web@net1", or the name of another owner.
func userName(owner alloc.Owner) string {
	if owner.Interface() == "" {
		return owner.String()
	}
	return owner.Pod().String() + "@" + owner.Interface()
}

// isPortOf reports whether a row is the port of an attachment of a pod.
func (h held) isPortOf(pod types.NamespacedName, row unit.Row) bool {
	port, ok := row.Model.(*nbdb.LogicalSwitchPort)
	return ok && port.ExternalIDs[ovnexpr.RequestKey] == h.owner.Request() &&
		port.UUID == topology.NetworkPortUUID(names.NetworkPort(h.network, pod.Namespace, pod.Name, h.owner.Interface()), h.owner.UID())
}

// holders remembers which attachments each pod has, and which pods wait for an address. The zero value is empty.
type holders struct {
	waiters kind.Waiters

	mu sync.Mutex
	// byPod says of each attachment whether the database has its port. A pod keeps the addresses of a port that was lost.
	byPod map[types.NamespacedName]map[held]bool
	// on counts the attachments in byPod with a port: network -> namespace -> attachments.
	on map[string]map[string]int
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
func (h *holders) hasPort(pod types.NamespacedName, owner alloc.Owner) bool {
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
func (h *holders) networkOf(pod types.NamespacedName, owner alloc.Owner) (network string, ok bool) {
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

func (h *holders) copyTo(to *holders) {
	h.waiters.CopyTo(&to.waiters)
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
