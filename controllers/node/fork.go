package node

import "maps"

// rememberFrom copies the state of another reconciler, which a plan continues.
func (r *Reconciler) rememberFrom(origin *Reconciler) {
	origin.mu.Lock()
	defer origin.mu.Unlock()
	r.assigned, r.waiting, r.caughtUp = maps.Clone(origin.assigned), maps.Clone(origin.waiting), origin.caughtUp
	r.waitingForGateway = maps.Clone(origin.waitingForGateway)
}
