package policy

import (
	"context"
	"errors"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// errNotInSync: the policies of a kind that came just now are not all known yet.
var errNotInSync = errors.New("the cache of policies is not in sync yet")

// Known are the kinds of policies that the API server has at present. Nobody reads the cache of another: it would wait for it for ever.
type Known struct {
	mu        sync.RWMutex
	informers map[string]cache.Informer // name of the kind -> its cache
}

// Has reports whether the API server has a kind.
func (k *Known) Has(kind string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.informers[kind] != nil
}

// Read reads what is known of a kind; known is false if the API server does not have it. It does not go while it is read.
func (k *Known) Read(kind string, read func() error) (known bool, err error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	switch informer := k.informers[kind]; {
	case informer == nil:
		return false, nil
	case !informer.HasSynced():
		return true, errNotInSync
	}
	return true, read()
}

// begin notes that the API server has a kind, and begins to read it; begun is false if that is known.
func (k *Known) begin(ctx context.Context, from cache.Cache, kind ClusterKind) (begun bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.informers[kind.Name] != nil {
		return false, nil
	}
	informer, err := from.GetInformer(ctx, kind.object(), cache.BlockUntilSynced(false))
	if err != nil {
		return false, err
	}
	if k.informers == nil {
		k.informers = map[string]cache.Informer{}
	}
	k.informers[kind.Name] = informer
	return true, nil
}

// end notes that it has it no more.
func (k *Known) end(ctx context.Context, from cache.Cache, kind ClusterKind) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.informers[kind.Name] == nil {
		return nil
	}
	delete(k.informers, kind.Name)
	return from.RemoveInformer(ctx, kind.object())
}
