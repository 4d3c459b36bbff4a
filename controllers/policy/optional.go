package policy

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/acllog/annotation"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// OptionalKind is a kind of policies that the API server may not serve.
type OptionalKind struct {
	// Name is the kind of its units, Definition the name of its CRD, and Version the version that is read.
	Name, Definition, Version string

	object func() client.Object
	list   func() client.ObjectList
}

// Optional watches the policies of an optional kind while the API server serves it.
type Optional struct {
	Kind   OptionalKind
	Served *kind.Served

	reader     client.Reader
	triggers   *trigger.Set
	changed    func(event.UpdateEvent) bool // passes the updates that concern the reconciler
	controller controller.Controller
}

// optional returns the watch of an optional kind for updates that changed passes.
func (r *Reconciler) optional(of OptionalKind, served *kind.Served, changed func(event.UpdateEvent) bool) *Optional {
	return &Optional{Kind: of, Served: served, reader: r.Client, triggers: r.Triggers, changed: changed}
}

// kind returns the kind of the policies, with watches besides that of the policies themselves.
func (o *Optional) kind(r reconcile.Reconciler, more ...kind.Watch) *kind.Kind {
	policies := kind.Watch{Object: o.Kind.object(), Handler: &handler.EnqueueRequestForObject{}, Predicates: o.predicates(), Later: true}
	return &kind.Kind{Name: o.Kind.Name, Workers: workers, Reconciler: r, Owner: o.Kind.object, Optional: true, Built: o.built,
		Watches: append(more, policies)}
}

func (o *Optional) predicates() []predicate.Predicate {
	return []predicate.Predicate{predicate.Or[client.Object](predicate.Funcs{UpdateFunc: o.changed}, annotation.Changed())}
}

// built starts to watch the policies if the API server serves their kind. Otherwise the controller removes the rows
// of former policies, and Definitions starts the watch when the kind appears. Existing policies are read before any
// selector counts as unused.
func (o *Optional) built(mgr ctrl.Manager, c controller.Controller) error {
	o.controller = c
	// The kind may have disappeared and returned since a former leadership of this process read it.
	if err := mgr.GetCache().RemoveInformer(context.Background(), o.Kind.object()); err != nil {
		return err
	}
	gvk, err := apiutil.GVKForObject(o.Kind.object(), mgr.GetScheme())
	if err != nil {
		return err
	}
	if _, err := mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
		return nil
	} else if err != nil {
		return err
	}
	return o.begin(context.Background(), mgr.GetCache())
}

// begin watches the policies, once the API server serves their kind.
func (o *Optional) begin(ctx context.Context, from cache.Cache) error {
	if begun, err := o.Served.Begin(ctx, from, o.Kind.Name, o.Kind.object()); !begun {
		return err
	}
	return o.controller.Watch(source.Kind(from, o.Kind.object(), &handler.EnqueueRequestForObject{}, o.predicates()...))
}

// end enqueues all policies once more, because without their kind no policy exists.
func (o *Optional) end(ctx context.Context, from cache.Cache) error {
	left, err := o.list(ctx)
	if err != nil && !errors.Is(err, kind.ErrNotInSync) { // a cache that is not in sync yet never will be
		return err
	}
	if err := o.Served.End(ctx, from, o.Kind.Name, o.Kind.object()); err != nil {
		return err
	}
	for _, policy := range left {
		o.triggers.Enqueue(o.Kind.Name, client.ObjectKeyFromObject(policy))
	}
	return nil
}

func (o *Optional) list(ctx context.Context) ([]client.Object, error) {
	return o.Kind.listFrom(ctx, o.reader, o.Served)
}

// get reads a policy. found is false if the policy does not exist, or the API server does not serve the kind.
func (o *Optional) get(ctx context.Context, name types.NamespacedName, policy client.Object) (found bool, err error) {
	served, err := o.Served.Read(o.Kind.Name, func() error { return o.reader.Get(ctx, name, policy) })
	if !served || apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// requests returns a request for each policy that concerned reports. It returns none while the cache is not in sync,
// because the policies are reconciled when it is.
func (o *Optional) requests(ctx context.Context, concerned func(client.Object) bool) (all []reconcile.Request) {
	policies, err := o.list(ctx)
	if err != nil {
		return nil
	}
	for _, policy := range policies {
		if concerned(policy) {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policy)})
		}
	}
	return all
}

// load calls use for each policy, if the API server serves the kind. It waits until the cache is in sync.
func (o *Optional) load(ctx context.Context, use func(client.Object) error) error {
	if !o.Served.Has(o.Kind.Name) {
		return nil
	}
	return o.Kind.each(ctx, o.reader, use)
}

func (k OptionalKind) listFrom(ctx context.Context, reader client.Reader, served *kind.Served) (all []client.Object, err error) {
	_, err = served.Read(k.Name, func() error {
		return k.each(ctx, reader, func(policy client.Object) error {
			all = append(all, policy)
			return nil
		})
	})
	return all, err
}

// each visits the policies that are in the cache. visit must not change them.
func (k OptionalKind) each(ctx context.Context, reader client.Reader, visit func(client.Object) error) error {
	list := k.list()
	if err := reader.List(ctx, list); err != nil {
		return err
	}
	return meta.EachListItem(list, func(object runtime.Object) error { return visit(object.(client.Object)) })
}
