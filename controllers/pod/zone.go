package pod

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// addressed passes updates of the addresses of a pod elsewhere, and of a pod here that reports others than it has.
func (r *Reconciler) addressed(before, after *corev1.Pod) bool {
	if equality.Semantic.DeepEqual(before.Status.PodIPs, after.Status.PodIPs) || !facts.WantsPort(after) {
		return false
	}
	var nn networkv1alpha1.NodeNetwork
	err := r.Client.Get(context.Background(), types.NamespacedName{Name: after.Spec.NodeName}, &nn)
	return err == nil && (r.Zone.Elsewhere(&nn) || len(r.othersThanIts(after)) > 0)
}

// wasElsewhere passes the deletion of the network of a node elsewhere. Pods of this zone's nodes lose their addresses with the node.
func (r *Reconciler) wasElsewhere(e event.DeleteEvent) bool {
	nn, ok := e.Object.(*networkv1alpha1.NodeNetwork)
	return !ok || r.Zone.Elsewhere(nn)
}
