package pod

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/trigger"
)

// Fork returns a reconciler that knows what r knows of the past and works on another world: it leaves r alone. ok is false while
// the addresses in use are not known.
func (r *Reconciler) Fork(c client.Client, db Database, addresses *alloc.Allocator, recorder events.EventRecorder, t *trigger.Trigger, selectors Selectors) (fork *Reconciler, ok bool) {
	fork = &Reconciler{Client: c, Database: db, Addresses: addresses, Events: recorder, Trigger: t, Selectors: selectors, Counted: func() {}}
	r.holders.copyTo(&fork.holders)
	r.restored.copyTo(&fork.restored)
	return fork, fork.restored.done
}

func (r *restoration) copyTo(to *restoration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to.done, to.kept, to.chassis = r.done, maps.Clone(r.kept), maps.Clone(r.chassis)
}

func (h *holders) copyTo(to *holders) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to.owners = make(map[types.NamespacedName]map[string]struct{}, len(h.owners))
	for pod, owners := range h.owners {
		to.owners[pod] = maps.Clone(owners)
	}
	to.waiting = make(map[string]map[types.NamespacedName]struct{}, len(h.waiting))
	for node, pods := range h.waiting {
		to.waiting[node] = maps.Clone(pods)
	}
}
