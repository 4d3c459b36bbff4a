package clusternetwork

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// recordConditions records an event for each condition that has changed since the last event. Kubernetes merges
// events of one reason and action. recordConditions does not compare with the cache, which may be older than our own
// last write.
func (r *Reconciler) recordConditions(cn *networkv1alpha1.ClusterNetwork, now []metav1.Condition) {
	if !r.Settings.Announce {
		return
	}
	// weft-operands records its own events
	now = slices.DeleteFunc(slices.Clone(now), func(c metav1.Condition) bool { return c.Type == networkv1alpha1.ConditionRemoving })
	for _, change := range health.Changes(r.announced, now) {
		kind := corev1.EventTypeNormal
		if change.Bad {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(cn, nil, kind, change.Reason, "Report"+change.Type, "%s is %s: %s", change.Type,
			change.Status, cut(change.Message))
	}
	r.announced = now
}
