package rollout

import (
	"cmp"
	"slices"

	"github.com/weft-network/weft/pkg/operand"
)

// centralOf is the one pod of the databases that is to be looked at. Of several members it is the worst: no other is replaced while one is missing, ends or is not
// ready, since two of three are needed. One that is of the only member yet has to become one of several before the others can work.
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
		if !p.members && !p.ending && v.old(operand.Central, p) {
			return p
		}
		left = append(left, p)
	}
	if len(left) < wanted {
		return pod{}
	}
	return slices.MinFunc(left, func(a, b pod) int {
		return cmp.Or(cmp.Compare(v.trouble(a), v.trouble(b)), cmp.Compare(a.name, b.name))
	})
}

// trouble is lower for what is worse.
func (v *view) trouble(p pod) int {
	switch old := v.old(operand.Central, p); {
	case p.ending:
		return 0
	case !p.ready && old: // it is of no use as it is
		return 1
	case !p.ready:
		return 2
	case old:
		return 3
	}
	return 4
}
