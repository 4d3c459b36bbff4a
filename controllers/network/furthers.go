package network

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// furtherProblems lists the Networks that are not ready, sorted by name. A foreign NetworkAttachmentDefinition is not listed, because the
// owner of a namespace must not be able to block an upgrade: it is among the refused requests.
func furtherProblems(f statusInput) (found []networkv1alpha1.Problem) {
	for _, n := range unreadyNetworks(f.furthers) {
		if p := problemOf(n); p.Reason != networkv1alpha1.ReasonDefinitionExists {
			found = append(found, p)
		}
	}
	return found
}

// definitionRefusals lists the Networks for which a namespace has a foreign NetworkAttachmentDefinition.
func definitionRefusals(furthers []networkv1alpha1.Network) (found []networkv1alpha1.Refusal) {
	for _, n := range unreadyNetworks(furthers) {
		if p := problemOf(n); p.Reason == networkv1alpha1.ReasonDefinitionExists {
			found = append(found, networkv1alpha1.Refusal{Object: p.Object, Message: health.Cut(p.Message + ". Next: " + p.NextStep)})
		}
	}
	return found
}

// unreadyNetworks returns the Networks whose condition Ready is false, sorted by name.
func unreadyNetworks(all []networkv1alpha1.Network) (unready []*networkv1alpha1.Network) {
	for i := range all {
		if meta.IsStatusConditionFalse(all[i].Status.Conditions, networkv1alpha1.ConditionReady) && all[i].DeletionTimestamp == nil {
			unready = append(unready, &all[i])
		}
	}
	slices.SortFunc(unready, func(a, b *networkv1alpha1.Network) int { return strings.Compare(a.Name, b.Name) })
	return unready
}

func problemOf(n *networkv1alpha1.Network) networkv1alpha1.Problem {
	c := meta.FindStatusCondition(n.Status.Conditions, networkv1alpha1.ConditionReady)
	return health.New(networkv1alpha1.AreaTopology, networkv1alpha1.StateDegraded, c.Reason, "Network/"+n.Name, c.Message)
}

// furtherChanged passes updates of a Network that change whether, or why, it is not ready. Its count of attachments does not.
func furtherChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.Network)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.Network)
	return !ok || !ok2 || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions)
}
