package rollout

import (
	"cmp"
	"slices"

	"github.com/weft-network/weft/pkg/install/render"
)

// centralOf returns the databases' pod that determines the next step. name is their StatefulSet, and pods are its pods. Of several
// members it is the worst: while one is missing, terminating or not ready, no other is replaced, because a quorum needs two of three. A
// pod that still serves a standalone database comes first, because the other members can join only after it has created the cluster.
func (v *view) centralOf(name string, pods []pod, place render.Place) pod {
	if !place.Clustered() {
		var last pod
		for _, p := range pods {
			last = later(last, p)
		}
		return last
	}
	for _, p := range pods {
		if !p.members && !p.ending && v.old(name, p) {
			return p
		}
	}
	if len(pods) < len(place.Members) {
		return pod{}
	}
	return slices.MinFunc(pods, func(a, b pod) int {
		return cmp.Or(cmp.Compare(v.trouble(name, a), v.trouble(name, b)), cmp.Compare(a.name, b.name))
	})
}

// trouble returns the rank of a workload's pod; lower is worse.
func (v *view) trouble(name string, p pod) int {
	switch old := v.old(name, p); {
	case p.ending:
		return 0
	case !p.ready && old: // replacing it costs nothing
		return 1
	case !p.ready:
		return 2
	case old:
		return 3
	}
	return 4
}
