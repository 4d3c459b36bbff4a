package agent

import (
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// reported is the NodeNetwork as this agent wrote it last, while the cache has one of before: the next write follows it instead of being refused
// until the cache is as new.
type reported struct {
	last *networkv1alpha1.NodeNetwork
	// before are the resource versions that were written over. Each write names the one that it follows, so there is nobody else's between them.
	before []string
}

// over notes a write.
func (r *reported) over(version string, written *networkv1alpha1.NodeNetwork) {
	r.before, r.last = append(r.before, version), written.DeepCopy()
}

// latest returns what is known best: what was written, or what the cache has once that is as new.
func (r *reported) latest(cached *networkv1alpha1.NodeNetwork) *networkv1alpha1.NodeNetwork {
	if cached == nil || !slices.Contains(r.before, cached.ResourceVersion) {
		*r = reported{}
		return cached
	}
	return r.last.DeepCopy()
}
