package plan

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/controllers/kind"
)

// deliver passes the event of a change to a watch, if the watch is for objects of its type and its predicates accept
// the event.
func (c change) deliver(ctx context.Context, w kind.Watch, q *queue) {
	switch {
	case !c.isOf(w.Object):
	case c.before == nil:
		e := event.CreateEvent{Object: c.after}
		if all(w.Predicates, func(p predicate.Predicate) bool { return p.Create(e) }) {
			w.Handler.Create(ctx, e, q)
		}
	case c.after == nil:
		e := event.DeleteEvent{Object: c.before}
		if all(w.Predicates, func(p predicate.Predicate) bool { return p.Delete(e) }) {
			w.Handler.Delete(ctx, e, q)
		}
	default:
		e := event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}
		if all(w.Predicates, func(p predicate.Predicate) bool { return p.Update(e) }) {
			w.Handler.Update(ctx, e, q)
		}
	}
}

func (c change) isOf(object client.Object) bool {
	one := c.after
	if one == nil {
		one = c.before
	}
	return reflect.TypeOf(one) == reflect.TypeOf(object)
}

func all(predicates []predicate.Predicate, pass func(predicate.Predicate) bool) bool {
	for _, p := range predicates {
		if !pass(p) {
			return false
		}
	}
	return true
}

// queue is a controller's work queue in a plan. It has no workers, delays or retries.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request] // nil, because handlers only add

	added  func(types.NamespacedName)
	names  []types.NamespacedName
	queued map[types.NamespacedName]bool
}

// newQueue returns an empty queue. added is called with each name that was not queued.
func newQueue(added func(types.NamespacedName)) *queue {
	return &queue{added: added, queued: map[types.NamespacedName]bool{}}
}

// Add implements workqueue.TypedInterface.
func (q *queue) Add(r reconcile.Request) {
	if !q.queued[r.NamespacedName] {
		q.queued[r.NamespacedName] = true
		q.names = append(q.names, r.NamespacedName)
		q.added(r.NamespacedName)
	}
}

// AddAfter implements workqueue.TypedDelayingInterface, without the delay.
func (q *queue) AddAfter(r reconcile.Request, _ time.Duration) { q.Add(r) }

// AddRateLimited implements workqueue.TypedRateLimitingInterface, without the limit.
func (q *queue) AddRateLimited(r reconcile.Request) { q.Add(r) }

func (q *queue) take() (name types.NamespacedName, ok bool) {
	if len(q.names) == 0 {
		return name, false
	}
	name, q.names = q.names[0], q.names[1:]
	delete(q.queued, name)
	return name, true
}
