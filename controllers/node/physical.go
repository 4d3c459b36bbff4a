package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// physicalUsers lists what pods of a node have on physical networks: see kind.Env. It reads when it is first called, because few nodes
// lose a physical network. While known is false, each is in use.
type physicalUsers func() (byNetwork map[networkv1alpha1.PhysicalNetworkName][]string, known bool)

// physicalUsers returns what keeps physical networks of a node: nothing if the ClusterNetwork confirms the loss.
func (r *Reconciler) physicalUsers(ctx context.Context, node string, cn *networkv1alpha1.ClusterNetwork) physicalUsers {
	return sync.OnceValues(func() (map[networkv1alpha1.PhysicalNetworkName][]string, bool) {
		if networkv1alpha1.LossConfirmed(cn) {
			return nil, true
		}
		return r.OnSegments(ctx, node)
	})
}

func (u physicalUsers) include(name networkv1alpha1.PhysicalNetworkName) bool {
	byNetwork, known := u()
	return !known || len(byNetwork[name]) > 0
}

// setCondition sets or removes the condition PhysicalNetworksCurrent of a NodeNetwork, and reports whether that changed it.
func (u physicalUsers) setCondition(nn *networkv1alpha1.NodeNetwork) (changed bool) {
	var kept []string
	for _, p := range nn.Spec.PhysicalNetworks {
		if !p.Leaving {
			continue
		}
		users := "it is not known yet which pods use it"
		if byNetwork, known := u(); known {
			users = health.NameSome(byNetwork[p.Name])
		}
		kept = append(kept, fmt.Sprintf("%s (%s): %s", p.Name, cmp.Or(p.Link, p.Bridge), users))
	}
	if len(kept) == 0 {
		return meta.RemoveStatusCondition(&nn.Status.Conditions, networkv1alpha1.ConditionPhysicalNetworksCurrent)
	}
	return meta.SetStatusCondition(&nn.Status.Conditions, metav1.Condition{Type: networkv1alpha1.ConditionPhysicalNetworksCurrent,
		Status: metav1.ConditionFalse, Reason: networkv1alpha1.ReasonPhysicalNetworksInUse, ObservedGeneration: nn.Generation,
		Message: health.Cut("ClusterNetwork's spec.physicalNetworks does not have these for the node any more, and attached pods keep their " +
			"interfaces: " + strings.Join(kept, "; ") + ". To detach a pod, delete it, or take the network out of its annotation. Or confirm the " +
			"loss: kubectl annotate clusternetwork default " + networkv1alpha1.ConfirmLossAnnotation + "=default")})
}

// keeping lists the nodes that keep physical networks for their pods.
func (r *Reconciler) keeping(ctx context.Context) (nodes []types.NamespacedName) {
	var list networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	for i := range list.Items {
		leaving := func(p networkv1alpha1.NodePhysicalNetwork) bool { return p.Leaving }
		if slices.ContainsFunc(list.Items[i].Spec.PhysicalNetworks, leaving) {
			nodes = append(nodes, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return nodes
}
