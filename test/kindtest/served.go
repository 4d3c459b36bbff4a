package kindtest

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Serve records that the API server serves an optional kind, and that the cache of its objects is in sync.
func (b *Bed) Serve(name string, object client.Object) {
	b.t.Helper()
	if _, err := b.Env.Served.Begin(b.t.Context(), served{}, name, object); err != nil {
		b.t.Fatal(err)
	}
}

// Unserve records that the API server no longer serves an optional kind.
func (b *Bed) Unserve(name string, object client.Object) {
	b.t.Helper()
	b.must(b.Env.Served.End(b.t.Context(), served{}, name, object))
}

// Cache returns a cache of which only the informers can be used. They are in sync.
func Cache() cache.Cache { return served{} }

// served is a cache whose informers are in sync.
type served struct {
	cache.Cache
	cache.Informer
}

func (s served) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return s, nil
}

func (s served) RemoveInformer(context.Context, client.Object) error { return nil }

func (s served) HasSynced() bool { return true }
