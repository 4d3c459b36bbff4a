package pod

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// rememberFrom copies the state of another reconciler, which a plan continues. The addresses must be copied
// afterwards, so that the copy has every address in the state.
func (r *Reconciler) rememberFrom(origin *Reconciler) {
	origin.holders.copyTo(&r.holders)
	origin.restored.copyTo(&r.restored)
	origin.lacking.copyTo(&r.lacking)
	r.egress.Store(origin.egress.Load())
	r.routes.Store(origin.routes.Load())
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
