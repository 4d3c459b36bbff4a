package node

import (
	"maps"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/trigger"
)

// Fork returns a reconciler that knows what r knows of the past and works on another world: it leaves r alone. Whom it tells of
// what it takes away is the caller's to set.
func (r *Reconciler) Fork(c client.Client, db Database, addresses Addresses, recorder events.EventRecorder, t *trigger.Trigger) *Reconciler {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &Reconciler{
		Client: c, Database: db, Addresses: addresses, Events: recorder, Trigger: t,
		assigned: maps.Clone(r.assigned), waiting: maps.Clone(r.waiting), caughtUp: r.caughtUp,
	}
}
