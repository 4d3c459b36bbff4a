package policy

import (
	"fmt"
	"strings"

	"github.com/weft-network/weft/pkg/unit"
)

// named reports whether the sets of DNS names exist.
func (r *Cluster) named(sets []unit.Key) bool {
	for _, set := range sets {
		if !r.Database.Wanted(set) {
			return false
		}
	}
	return true
}

// keepNames ends the use of the sets that a policy named before and does not name any more, after its rules were applied.
func (r *Cluster) keepNames(policy unit.Key, sets []unit.Key, applied error) {
	if applied != nil {
		return // the former rules may be in force
	}
	for _, set := range r.Names.Keep(policy, sets) {
		r.Triggers.EnqueueUnit(set)
	}
}

// unresolved says which names have no addresses, and why. A rule with such a name matches nothing.
func (r *Cluster) unresolved(sets []unit.Key) string {
	var texts []string
	for _, set := range sets {
		if _, _, err := r.Answers.Known(set.Name()); err != nil {
			texts = append(texts, fmt.Sprintf("%s: %v", set.Name(), err))
		}
	}
	return strings.Join(texts, "; ")
}
