// Package trigger lets what is not a Kubernetes event (a database's answer, a freed address) ask for a reconciliation.
package trigger

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/pkg/unit"
)

// Trigger is a source of a controller. It never blocks: requests go straight into the work queue, and wait in memory until
// the controller has started.
type Trigger struct {
	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	waiting []reconcile.Request
}

// Start implements source.Source.
func (t *Trigger) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = queue
	for _, request := range t.waiting {
		queue.Add(request)
	}
	t.waiting = nil
	return nil
}

// Enqueue asks for a reconciliation now.
func (t *Trigger) Enqueue(name types.NamespacedName) { t.EnqueueAfter(name, 0) }

// EnqueueAfter asks for one after a delay; requests for one name within the delay become one reconciliation.
func (t *Trigger) EnqueueAfter(name types.NamespacedName, delay time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enqueue(reconcile.Request{NamespacedName: name}, delay)
}

// enqueue passes a request on, or keeps it until the controller starts; t.mu is held.
func (t *Trigger) enqueue(request reconcile.Request, delay time.Duration) {
	if t.queue == nil {
		t.waiting = append(t.waiting, request)
		return
	}
	t.queue.AddAfter(request, delay)
}

// EnqueueLast asks for a reconciliation that may wait until there is nothing else to do, as the first one of what was there at a start.
func (t *Trigger) EnqueueLast(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if queue, ok := t.queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, reconcile.Request{NamespacedName: name})
		return
	}
	t.enqueue(reconcile.Request{NamespacedName: name}, 0)
}

// Take returns and forgets what was asked for before a controller has started, in order.
func (t *Trigger) Take() []reconcile.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.waiting
	t.waiting = nil
	return taken
}

// NameOf returns the object that a unit is of: "demo/web-0" of "pod/demo/web-0", "worker-1" of "node/worker-1".
func NameOf(key unit.Key) types.NamespacedName {
	if namespace, name, ok := strings.Cut(key.Name(), "/"); ok {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Name: key.Name()}
}
