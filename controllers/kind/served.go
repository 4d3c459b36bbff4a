package kind

import (
	"context"
	"errors"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNotInSync means that the API server has just begun to serve a kind and that its objects are not all cached yet.
var ErrNotInSync = errors.New("the cache of the kind is not in sync yet")

// Served holds the optional kinds that the API server serves. The cache of any other kind must not be read, because
// the read would wait for ever. The zero value holds none.
type Served struct {
	mu        sync.RWMutex
	informers map[string]cache.Informer // name of the kind -> its informer
}

// Has reports whether the API server has a kind.
func (k *Served) Has(kind string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.informers[kind] != nil
}

// Read calls read while the kind is served. served is false if the API server does not have the kind. The kind cannot
// be removed during the call.
func (k *Served) Read(kind string, read func() error) (served bool, err error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	switch informer := k.informers[kind]; {
	case informer == nil:
		return false, nil
	case !informer.HasSynced():
		return true, ErrNotInSync
	}
	return true, read()
}

// Begin records that the API server serves a kind, and starts to cache its objects. begun is false if that was
// recorded before.
func (k *Served) Begin(ctx context.Context, from cache.Cache, kind string, object client.Object) (begun bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.informers[kind] != nil {
		return false, nil
	}
	informer, err := from.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return false, err
	}
	if k.informers == nil {
		k.informers = map[string]cache.Informer{}
	}
	k.informers[kind] = informer
	return true, nil
}

// End records that the API server no longer serves a kind.
func (k *Served) End(ctx context.Context, from cache.Cache, kind string, object client.Object) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.informers[kind] == nil {
		return nil
	}
	delete(k.informers, kind)
	return from.RemoveInformer(ctx, object)
}
