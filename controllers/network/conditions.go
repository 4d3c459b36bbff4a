package network

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// tellConditions makes an event of each that changed (Kubernetes counts events of one reason and action as one) since the last one: since what was told, and not since what the cache has, which may be
// older than our own last write.
func (r *Reconciler) tellConditions(cn *networkv1alpha1.ClusterNetwork, now []metav1.Condition) {
	if !r.Announce {
		return
	}
	for _, change := range health.Changes(r.announced, now) {
		kind := corev1.EventTypeNormal
		if change.Bad {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(cn, nil, kind, change.Reason, "Report"+change.Type, "%s is %s: %s", change.Type, change.Status, cut(change.Message))
	}
	r.announced = now
}
