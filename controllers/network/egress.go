package network

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// egressProblems lists the egress IPs that no node carries, sorted by name. Packets of their pods leave with another
// address, or not at all. EgressFirewalls are not listed, because the owner of a namespace must not be able to block
// an upgrade.
func egressProblems(f statusInput) (found []networkv1alpha1.Problem) {
	all := slices.Clone(f.egress)
	slices.SortFunc(all, func(a, b networkv1alpha1.EgressIP) int { return cmp.Compare(a.Name, b.Name) })
	for i := range all {
		c := meta.FindStatusCondition(all[i].Status.Conditions, networkv1alpha1.ConditionAssigned)
		if c == nil || c.Status == metav1.ConditionTrue || all[i].DeletionTimestamp != nil {
			continue
		}
		found = append(found, health.New(networkv1alpha1.AreaTopology, networkv1alpha1.StateDegraded, c.Reason,
			"EgressIP/"+all[i].Name, c.Message))
	}
	return found
}

// assignedChanged passes updates of an EgressIP that affect the status.
func assignedChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.EgressIP)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.EgressIP)
	return !ok || !ok2 || !equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil)
}
