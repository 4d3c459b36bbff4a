// Package informers makes Kubernetes caches that deliver a recreated object as two events.
//
// An object that was deleted and created again while the watch was interrupted is one update for client-go, perhaps with the
// former generation. A predicate that compares the two would compare objects that have nothing but their name in common.
package informers

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewCache implements cache.NewCacheFunc. Handlers get the deletion and the creation of an object that was recreated unseen.
func NewCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	made, err := cache.New(config, options)
	if err != nil {
		return nil, err
	}
	return &caches{made}, nil
}

type caches struct{ cache.Cache }

// GetInformer implements cache.Informers.
func (c *caches) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	return wrap(c.Cache.GetInformer(ctx, object, options...))
}

// GetInformerForKind implements cache.Informers.
func (c *caches) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind,
	options ...cache.InformerGetOption) (cache.Informer, error) {
	return wrap(c.Cache.GetInformerForKind(ctx, kind, options...))
}

func wrap(found cache.Informer, err error) (cache.Informer, error) {
	if found == nil {
		return nil, err
	}
	return &informer{found}, err
}

type informer struct{ cache.Informer }

// AddEventHandler implements cache.Informer.
func (i *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(handler{h})
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (i *informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler,
	period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithResyncPeriod(handler{h}, period)
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler,
	options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithOptions(handler{h}, options)
}

type handler struct {
	toolscache.ResourceEventHandler
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (h handler) OnUpdate(before, after any) {
	if !recreated(before, after) {
		h.ResourceEventHandler.OnUpdate(before, after)
		return
	}
	h.OnDelete(before)
	h.OnAdd(after, false)
}

// recreated reports whether two states are of different objects of one name.
func recreated(before, after any) bool {
	was, err := meta.Accessor(before)
	is, err2 := meta.Accessor(after)
	return err == nil && err2 == nil && was.GetUID() != is.GetUID()
}
