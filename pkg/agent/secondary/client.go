package secondary

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// uncached gets objects from the API server. The agent watches neither pods nor definitions.
type uncached struct {
	client.Client
	live client.Reader
}

// Uncached returns a manager's client whose Get reads from the API server and not from the cache.
func Uncached(mgr manager.Manager) client.Client {
	return uncached{Client: mgr.GetClient(), live: mgr.GetAPIReader()}
}

// Get implements client.Reader.
func (u uncached) Get(ctx context.Context, name client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return u.live.Get(ctx, name, object, options...)
}
