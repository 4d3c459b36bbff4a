package clusternetwork

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/invariant"
)

func (r *Reconciler) violations() []invariant.Violation {
	if r.Observed.Violations == nil {
		return nil
	}
	return r.Observed.Violations()
}

// recordViolations records an event for each violation that no event has reported.
func (r *Reconciler) recordViolations(cn *networkv1alpha1.ClusterNetwork) {
	now := r.violations()
	old := map[string]bool{}
	for _, v := range r.reportedViolations {
		old[v.String()] = true
	}
	var news []invariant.Violation
	for _, v := range now {
		if !old[v.String()] {
			news = append(news, v)
		}
	}
	r.reportedViolations = now
	if len(news) > 0 {
		r.Events.Eventf(cn, nil, corev1.EventTypeWarning, networkv1alpha1.ReasonInvariantViolated, "Check", "%s", describeViolations(news))
	}
}

// describeViolations names the first violation and where to find the others.
func describeViolations(found []invariant.Violation) string {
	first := cut(found[0].String())
	if len(found) == 1 {
		return first
	}
	return fmt.Sprintf("%s; and %d more, see kubectl weft check", first, len(found)-1)
}
