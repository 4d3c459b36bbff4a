package rollout

import (
	"cmp"
	"slices"

	"github.com/weft-network/weft/pkg/install/render"
)

// centralOf returns the databases' pod that determines the next step. Of several members it is the worst: while one
// is missing, terminating or not ready, no other is replaced, because a quorum needs two of three. A pod that still
// serves a standalone database comes first, because the other members can join only after it has created the cluster.
func (v *view) centralOf() pod {
	wanted := len(v.Operand.Place.Members)
	if !v.Operand.Place.Clustered() {
		var last pod
		for _, p := range v.centrals {
			last = later(last, p)
		}
		return last
	}
	var left []pod
	for _, p := range v.centrals {
		if !p.members && !p.ending && v.old(render.Central, p) {
			return p
		}
		left = append(left, p)
	}
	if len(left) < wanted {
		return pod{}
	}
	return slices.MinFunc(left, func(a, b pod) int {
		return cmp.Or(cmp.Compare(v.trouble(render.Central, a), v.trouble(render.Central, b)), cmp.Compare(a.name, b.name))
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
