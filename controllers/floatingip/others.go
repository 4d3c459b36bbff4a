package floatingip

import (
	"context"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// refusalLife is how long a refusal to watch a kind is remembered.
const refusalLife = time.Minute

// watcher watches the kinds of workloads that keep addresses, from the first address on. The zero value watches none, as in
// a plan.
type watcher struct {
	begin func(object client.Object, apiVersion, kind string, passes predicate.Predicate) error

	mu    sync.Mutex
	begun map[schema.GroupVersionKind]bool
	asked map[schema.GroupVersionKind]time.Time // when the API server refused
}

// watcherOf returns a watcher that adds its watches to a controller.
func (r *Reconciler) watcherOf(mgr ctrl.Manager, c controller.Controller) *watcher {
	return &watcher{begun: map[schema.GroupVersionKind]bool{}, asked: map[schema.GroupVersionKind]time.Time{},
		begin: func(object client.Object, apiVersion, kind string, passes predicate.Predicate) error {
			return c.Watch(source.Kind(mgr.GetCache(), object,
				handler.EnqueueRequestsFromMapFunc(r.ofWorkload(apiVersion, kind)), passes))
		}}
}

// watch begins to watch a kind, once.
func (w *watcher) watch(object client.Object, apiVersion, kind string, passes predicate.Predicate) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	if w.begin == nil || w.begun[gvk] {
		return nil
	}
	if err := w.begin(object, apiVersion, kind, passes); err != nil {
		return err
	}
	w.begun[gvk] = true
	return nil
}

// isDecided reports whether a kind is watched, or was refused recently.
func (w *watcher) isDecided(gvk schema.GroupVersionKind, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	refused, ok := w.asked[gvk]
	return w.begin == nil || w.begun[gvk] || ok && now.Sub(refused) < refusalLife
}

func (w *watcher) refuse(gvk schema.GroupVersionKind, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[gvk] = now
}

// watchWorkload watches the kind of a workload. The kinds that every cluster has come first: their state is read from the
// cache of whole objects, which a watch of metadata may be ahead of.
func (r *Reconciler) watchWorkload(ctx context.Context, of floating.Workload) error {
	if r.watches == nil {
		return nil
	}
	if err := r.watchWorkloads(); err != nil {
		return err
	}
	return r.watchOther(ctx, of)
}

// watchOther watches the metadata of any other kind, if the operator has the right to. Without the right, an address that
// such a workload keeps becomes free only when another event enqueues the address.
func (r *Reconciler) watchOther(ctx context.Context, of floating.Workload) error {
	gvk := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
	if of.APIVersion == "v1" && of.Kind == "Pod" || r.watches.isDecided(gvk, r.Floating.Now()) {
		return nil
	}
	mapping, err := r.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) { // with the kind, its objects went
		r.watches.refuse(gvk, r.Floating.Now())
		return nil
	}
	if err != nil {
		return err
	}
	for _, verb := range []string{"list", "watch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: mapping.Resource.Group,
				Version: mapping.Resource.Version, Resource: mapping.Resource.Resource}}}
		if err := r.Client.Create(ctx, review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			r.watches.refuse(gvk, r.Floating.Now())
			return nil
		}
	}
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: of.APIVersion, Kind: of.Kind}}
	return r.watches.watch(object, of.APIVersion, of.Kind, trigger.SpecChanged())
}
