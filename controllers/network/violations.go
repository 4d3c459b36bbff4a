package network

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/invariant"
)

func (r *Reconciler) violations() []invariant.Violation {
	if r.Violations == nil {
		return nil
	}
	return r.Violations()
}

// tellViolations makes an event of those that no event told of.
func (r *Reconciler) tellViolations(cn *networkv1alpha1.ClusterNetwork) {
	now := r.violations()
	old := map[string]bool{}
	for _, v := range r.known {
		old[v.String()] = true
	}
	var news []invariant.Violation
	for _, v := range now {
		if !old[v.String()] {
			news = append(news, v)
		}
	}
	r.known = now
	if len(news) > 0 {
		r.Events.Eventf(cn, nil, corev1.EventTypeWarning, networkv1alpha1.ReasonInvariantViolated, "Check", "%s", describeViolations(news))
	}
}

// describeViolations names the first and says where to find the others.
func describeViolations(found []invariant.Violation) string {
	first := cut(found[0].String())
	if len(found) == 1 {
		return first
	}
	return fmt.Sprintf("%s; and %d more, see kubectl weft check", first, len(found)-1)
}
