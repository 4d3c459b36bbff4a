// Package kind describes a kind of unit: the reconciler that builds its units, and the watches that enqueue its
// objects. Each package of reconcilers exports a function Kinds, which builds them from an Env. The operator
// registers the kinds with its manager. A plan builds them from an Env of its own, whose client and database only
// record, and delivers the events of its objects to the same watches. So a plan takes the same decisions as the
// operator.
package kind

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Kind is a reconciler with its watches and the properties of its units.
type Kind struct {
	// Name is the kind of its units (topology.KindPod), and the key of its trigger in Env.Triggers.
	Name string
	// Controller names the controller in logs and metrics. The default is Name.
	Controller string
	// Workers is how many objects are reconciled concurrently. The default is 1.
	Workers    int
	Reconciler reconcile.Reconciler
	Watches    []Watch
	Indexes    []Index

	// Owner returns an empty object of the type that owns the units. The sweep removes a unit whose owner does not
	// exist. If it is nil, no object owns the units.
	Owner func() client.Object
	// Object is the kind of the objects that are reconciled, in lower case, if Owner does not say it.
	Object string
	// Optional means that the API server may not serve the owners' type. The cache must not be read for it, because
	// the cache would wait for it.
	Optional bool
	// Shared means that the units have users instead of an owner. The reconciler removes a unit without users.
	Shared bool
	// First returns an empty list of the objects that must have been reconciled once before an element without a
	// wanting unit counts as unwanted. It may be nil.
	First func() client.ObjectList
	// FirstOptions limits First to some of the objects of its type.
	FirstOptions []client.ListOption

	// SkipInPlan means that plans do not run this kind.
	SkipInPlan bool
	// DefaultZoneOnly means that only the operator of the default zone runs this kind.
	DefaultZoneOnly bool
	// Built, if set, is called when the controller has been built, before it starts.
	Built func(mgr ctrl.Manager, c controller.Controller) error
}

// Watch delivers the events of one type of object to a controller.
type Watch struct {
	Object     client.Object
	Handler    handler.EventHandler
	Predicates []predicate.Predicate
	// Metadata caches only the metadata of the objects.
	Metadata bool
	// Later means that the API server may not serve the type. The manager does not begin this watch; Kind.Built
	// arranges it.
	Later bool
}

// Index is an index of the cache.
type Index struct {
	Object client.Object
	Field  string
	Values client.IndexerFunc
}

// Of watches a type of object, and reconciles the objects themselves.
func Of(object client.Object, predicates ...predicate.Predicate) Watch {
	return On(object, &handler.EnqueueRequestForObject{}, predicates...)
}

// Map watches a type of object, and reconciles the results of requests. An update passes both the previous and the
// new object to requests.
func Map(object client.Object, requests handler.MapFunc, predicates ...predicate.Predicate) Watch {
	return On(object, handler.EnqueueRequestsFromMapFunc(requests), predicates...)
}

// On watches a type of object with a handler.
func On(object client.Object, h handler.EventHandler, predicates ...predicate.Predicate) Watch {
	return Watch{Object: object, Handler: h, Predicates: predicates}
}

// Changes enqueues the requests for what objects gain or lose. of returns what an object has, in a fixed order.
func Changes[T comparable](of func(client.Object) []T, requests func(context.Context, []T) []reconcile.Request) handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue, all []T) {
		for _, request := range requests(ctx, all) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList { // what depends on the object is enqueued by its own watch
				enqueue(ctx, q, of(e.Object))
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, of(e.Object)) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if before, after := of(e.ObjectOld), of(e.ObjectNew); !slices.Equal(before, after) {
				enqueue(ctx, q, append(before, after...))
			}
		},
	}
}

// MetadataOnly returns the watch with only the metadata of the objects cached.
func (w Watch) MetadataOnly() Watch {
	w.Metadata = true
	return w
}

// Register adds the controller and its indexes to a manager. reconciled, if set, is called with each object after its reconciliation,
// whatever the result.
func (k *Kind) Register(mgr ctrl.Manager, triggers *trigger.Set, reconciled func(reconcile.Request)) error {
	if err := k.AddIndexes(mgr); err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).Named(k.controller())
	for _, w := range k.Watches {
		switch {
		case w.Later:
		case w.Metadata:
			b = b.WatchesMetadata(w.Object, w.Handler, builder.WithPredicates(w.Predicates...))
		default:
			b = b.Watches(w.Object, w.Handler, builder.WithPredicates(w.Predicates...))
		}
	}
	c, err := b.WatchesRawSource(triggers.Of(k.Name)).
		WithOptions(controller.Options{MaxConcurrentReconciles: k.Workers, RateLimiter: trigger.Retries()}).
		Build(k.observed(reconciled))
	if err != nil || k.Built == nil {
		return err
	}
	return k.Built(mgr, c)
}

// AddIndexes adds the kind's indexes to the cache.
func (k *Kind) AddIndexes(mgr ctrl.Manager) error {
	for _, index := range k.Indexes {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), index.Object, index.Field, index.Values); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kind) controller() string {
	if k.Controller != "" {
		return k.Controller
	}
	return k.Name
}

// ObjectKind returns the kind of the objects that are reconciled, in lower case, such as "node" for the kind "gateway".
// For units without an object it is Name.
func (k *Kind) ObjectKind() string {
	switch {
	case k.Object != "":
		return k.Object
	case k.Owner != nil:
		return strings.ToLower(reflect.TypeOf(k.Owner()).Elem().Name())
	}
	return k.Name
}

// observed returns a reconciler that applies units with the object as their cause, and reports each reconciliation.
func (k *Kind) observed(reconciled func(reconcile.Request)) reconcile.Reconciler {
	object, controller := k.ObjectKind(), k.controller()
	return trigger.QuietConflicts(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		result, err := k.Reconciler.Reconcile(ovndb.WithCause(ctx, ovndb.Cause{Object: keyOf(object, req), Reconciler: controller}), req)
		later := errors.Is(err, ErrLater)
		if k.First != nil && reconciled != nil && !later && !apierrors.IsConflict(err) { // a conflict is retried
			reconciled(req)
		}
		if later {
			return reconcile.Result{}, nil
		}
		return result, err
	}))
}

// ErrLater is returned by a reconciler that has not applied an object's unit, and that is enqueued again when it can. The object does not
// count as reconciled.
var ErrLater = errors.New("the object is reconciled later")

// keyOf returns the key of an object: KIND/NAMESPACE/NAME, or KIND/NAME.
func keyOf(kind string, req reconcile.Request) unit.Key {
	if req.Namespace == "" {
		return unit.NewKey(kind, req.Name)
	}
	return unit.NewKey(kind, req.Namespace, req.Name)
}
