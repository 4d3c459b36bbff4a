package leadership

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// caches are the Kubernetes caches of the process. They outlive leaderships, so that a process that leads again does
// not list all objects again.
type caches struct {
	cache.Cache
	scheme *runtime.Scheme

	mu      sync.Mutex
	indexed map[index]bool
}

type index struct {
	kind  schema.GroupVersionKind
	field string
}

func newCaches(config *rest.Config, options ctrl.Options) (*caches, error) {
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	made := options.Cache
	made.Scheme, made.HTTPClient = options.Scheme, transport
	if made.Mapper, err = apiutil.NewDynamicRESTMapper(config, transport); err != nil {
		return nil, err
	}
	newCache := options.NewCache
	if newCache == nil {
		newCache = cache.New
	}
	all, err := newCache(config, made)
	return &caches{Cache: all, scheme: options.Scheme, indexed: map[index]bool{}}, err
}

// IndexField implements client.FieldIndexer. An index stays when its leadership ends, and the next leadership uses
// it. Therefore the result of extract must depend only on the object.
func (c *caches) IndexField(ctx context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	kind, err := apiutil.GVKForObject(object, c.scheme)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.indexed[index{kind, field}] {
		return nil
	}
	if err := c.Cache.IndexField(ctx, object, field, extract); err != nil {
		return err
	}
	c.indexed[index{kind, field}] = true
	return nil
}

// RemoveInformer implements cache.Informers. It also removes the indexes of the kind.
func (c *caches) RemoveInformer(ctx context.Context, object client.Object) error {
	kind, err := apiutil.GVKForObject(object, c.scheme)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.indexed {
		if i.kind == kind {
			delete(c.indexed, i)
		}
	}
	return c.Cache.RemoveInformer(ctx, object)
}

// view is the caches as one manager uses them. When the view ends, it removes the event handlers that were added
// through it.
type view struct {
	*caches
	work context.Context

	mu    sync.Mutex
	ended bool
	added []func()
}

// open returns the cache of a manager whose work ends with this context.
func (c *caches) open(work context.Context) *view { return &view{caches: c, work: work} }

// provide implements cache.NewCacheFunc.
func (v *view) provide(*rest.Config, cache.Options) (cache.Cache, error) { return v, nil }

// end removes all event handlers.
func (v *view) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = true
	for _, remove := range v.added {
		remove()
	}
	v.added = nil
}

// keep records an event handler, or removes it at once if the view has ended.
func (v *view) keep(of cache.Informer, added toolscache.ResourceEventHandlerRegistration) {
	remove := func() { _ = of.RemoveEventHandler(added) } // fails if the informer is gone as well
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended {
		remove()
		return
	}
	v.added = append(v.added, remove)
}

// Start implements cache.Informers. The process itself runs the caches.
func (v *view) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// WaitForCacheSync implements cache.Informers. It returns true even if the work has ended, because a manager that
// starts waits for true even when it is stopped meanwhile.
func (v *view) WaitForCacheSync(ctx context.Context) bool {
	return v.caches.WaitForCacheSync(ctx) || v.work.Err() != nil
}

// GetInformer implements cache.Informers.
func (v *view) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	found, err := v.caches.GetInformer(ctx, object, options...)
	return v.wrap(found), err
}

// GetInformerForKind implements cache.Informers.
func (v *view) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind,
	options ...cache.InformerGetOption) (cache.Informer, error) {
	found, err := v.caches.GetInformerForKind(ctx, kind, options...)
	return v.wrap(found), err
}

func (v *view) wrap(found cache.Informer) cache.Informer {
	if found == nil {
		return nil
	}
	return &informer{found, v}
}

// informer records the event handlers that are added.
type informer struct {
	cache.Informer
	view *view
}

// AddEventHandler implements cache.Informer.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.keep(i.Informer.AddEventHandler(handler))
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (i *informer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler,
	period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.keep(i.Informer.AddEventHandlerWithResyncPeriod(handler, period))
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler,
	options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.keep(i.Informer.AddEventHandlerWithOptions(handler, options))
}

func (i *informer) keep(added toolscache.ResourceEventHandlerRegistration,
	err error) (toolscache.ResourceEventHandlerRegistration, error) {
	if err == nil {
		i.view.keep(i.Informer, added)
	}
	return added, err
}
