// Package trigger requests reconciliations for causes other than Kubernetes events, such as a database's reply or a
// freed address.
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

// Trigger is a source of a controller. It never blocks: requests go directly to the work queue, and wait in memory
// until the controller has started.
type Trigger struct {
	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	waiting []reconcile.Request
	last    []reconcile.Request // of EnqueueLast before the controller started
	ignored bool                // no controller will start
}

// Ignore drops all requests: this process has no controller for them.
func (t *Trigger) Ignore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting, t.last, t.ignored = nil, nil, true
}

// Start implements source.Source.
func (t *Trigger) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = queue
	for _, request := range t.waiting {
		queue.Add(request)
	}
	for _, request := range t.last {
		t.addLast(request)
	}
	t.waiting, t.last = nil, nil
	return nil
}

// Enqueue requests a reconciliation now.
func (t *Trigger) Enqueue(name types.NamespacedName) { t.EnqueueAfter(name, 0) }

// EnqueueAfter requests a reconciliation after a delay. Requests for one name within the delay become one reconciliation.
func (t *Trigger) EnqueueAfter(name types.NamespacedName, delay time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enqueue(reconcile.Request{NamespacedName: name}, delay)
}

// enqueue passes a request on, or stores it until the controller starts. t.mu must be held.
func (t *Trigger) enqueue(request reconcile.Request, delay time.Duration) {
	if t.ignored {
		return
	}
	if t.queue == nil {
		t.waiting = append(t.waiting, request)
		return
	}
	t.queue.AddAfter(request, delay)
}

// EnqueueLast requests a reconciliation that may wait until the queue is otherwise empty, such as the first one of an
// object that exists at start.
func (t *Trigger) EnqueueLast(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch request := (reconcile.Request{NamespacedName: name}); {
	case t.ignored:
	case t.queue == nil:
		t.last = append(t.last, request)
	default:
		t.addLast(request)
	}
}

// addLast adds a request to the queue. t.mu must be held.
func (t *Trigger) addLast(request reconcile.Request) {
	if queue, ok := t.queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, request)
		return
	}
	t.queue.Add(request)
}

// Take removes and returns the requests from before the controller started, in order.
func (t *Trigger) Take() []reconcile.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := append(t.waiting, t.last...)
	t.waiting, t.last = nil, nil
	return taken
}

// NameOf returns the object of a unit: "demo/web-0" for "pod/demo/web-0", "worker-1" for "node/worker-1".
func NameOf(key unit.Key) types.NamespacedName {
	if namespace, name, ok := strings.Cut(key.Name(), "/"); ok {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Name: key.Name()}
}
