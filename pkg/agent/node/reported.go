package node

import (
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// reported is the NodeNetwork as this agent last wrote it, while the cache is older. The next write is based on that
// version. Otherwise the API server would refuse it until the cache has caught up.
type reported struct {
	last *networkv1alpha1.NodeNetwork
	// before are the resource versions that this agent overwrote. Each write names the version it is based on, so that
	// no version of another writer is between them.
	before []string
}

// over records a write.
func (r *reported) over(version string, written *networkv1alpha1.NodeNetwork) {
	r.before, r.last = append(r.before, version), written.DeepCopy()
}

// latest returns the newest version: the last write, or the cached version if the cache has caught up.
func (r *reported) latest(cached *networkv1alpha1.NodeNetwork) *networkv1alpha1.NodeNetwork {
	if cached == nil || !slices.Contains(r.before, cached.ResourceVersion) {
		*r = reported{}
		return cached
	}
	return r.last.DeepCopy()
}
