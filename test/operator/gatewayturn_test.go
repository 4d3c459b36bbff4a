package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// gatewayReports writes what an agent reports about its present spec.gateway. An empty reason means that the gateway works.
func (w *world) gatewayReports(node, reason, message string) {
	w.Helper()
	w.until(func() error {
		nn := w.nodeNetwork(node)
		patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		c := metav1.Condition{Type: networkv1alpha1.ConditionGatewayReady, Status: metav1.ConditionTrue,
			Reason: networkv1alpha1.ReasonAsExpected, ObservedGeneration: nn.Generation}
		if reason != "" {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason, message
		}
		meta.SetStatusCondition(&nn.Status.Conditions, c)
		return api.Status().Patch(w.Context(), nn, patch)
	})
}

// untilChanged waits until count nodes have a next hop in their spec and all others say that they wait. It returns the former.
func (w *world) untilChanged(hop networkv1alpha1.IP, count int) (changed []string) {
	w.Helper()
	w.until(func() error {
		changed = nil
		var list networkv1alpha1.NodeNetworkList
		w.must(view.List(w.Context(), &list))
		for _, nn := range list.Items {
			waits := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionGatewayCurrent)
			has := slices.Contains(nn.Spec.Gateway.NextHops, hop)
			if has {
				changed = append(changed, nn.Name)
			}
			if has != (waits == nil) || waits != nil && !strings.Contains(waits.Message, "nextHops of spec.gateway") {
				return fmt.Errorf("node %s has next hops %v and condition %+v", nn.Name, nn.Spec.Gateway.NextHops, waits)
			}
		}
		if len(changed) != count {
			return fmt.Errorf("%v have next hop %s, want %d", changed, hop, count)
		}
		return nil
	})
	return changed
}

// A changed gateway reaches one node after another, as each reports that it works. A node on which it does not work stops the rest, and
// a correction goes there first. A node that is new gets the newest gateway at once.
func TestAChangedGatewayGoesFromNodeToNode(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	cn := w.network(dualStack()...)
	nodes := []string{"n1", "n2", "n3"}
	w.joinShared(nodes...)
	for _, name := range nodes {
		w.gatewayReports(name, "", "")
	}
	hop := func(address networkv1alpha1.IP) {
		w.change(cn, func(s *networkv1alpha1.ClusterNetworkSpec) { s.Gateway.NextHops = []networkv1alpha1.IP{address} })
	}
	hop("192.0.2.9")
	first := w.untilChanged("192.0.2.9", 1)[0]
	w.gatewayReports(first, networkv1alpha1.ReasonWaitingForTopology, "not connected yet")
	w.gatewayReports(first, networkv1alpha1.ReasonNextHopsUnusable, "spec.gateway.nextHops[0] 192.0.2.9 does not answer")
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		for _, p := range s.Problems {
			if p.Reason == networkv1alpha1.ReasonGatewayStopped && strings.Contains(p.Message, "nextHops of spec.gateway: node "+first) &&
				strings.Contains(p.Message, "does not answer") && strings.Contains(p.Message, "keep their former gateway: n") {
				return nil
			}
		}
		return fmt.Errorf("problems: %+v", s.Problems)
	})
	o.settle()
	w.untilChanged("192.0.2.9", 1)

	hop("192.0.2.8")
	if corrected := w.untilChanged("192.0.2.8", 1); corrected[0] != first {
		t.Errorf("the correction went to %v, and not to %s", corrected, first)
	}
	o.stop()
	w.start()
	w.register("n4")
	w.until(func() error {
		if nn := w.nodeNetwork("n4"); !slices.Contains(nn.Spec.Gateway.NextHops, "192.0.2.8") || nn.Spec.Gateway.Unconfirmed {
			return fmt.Errorf("the new node has %+v", nn.Spec.Gateway)
		}
		return nil
	})
	w.untilChanged("192.0.2.8", 2)
	w.gatewayReports(first, "", "")
	second := slices.DeleteFunc(w.untilChanged("192.0.2.8", 3), func(n string) bool { return n == first || n == "n4" })[0]
	w.gatewayReports(second, networkv1alpha1.ReasonNoUplink, "the node has no such link") // and keeps its former gateway
	third := slices.DeleteFunc(w.untilChanged("192.0.2.8", 4), func(n string) bool { return n == first || n == "n4" || n == second })[0]
	w.gatewayReports(third, "", "")
	w.until(func() error {
		for _, name := range []string{first, third} {
			if w.nodeNetwork(name).Spec.Gateway.Unconfirmed {
				return fmt.Errorf("node %s is not confirmed", name)
			}
		}
		return nil
	})
}
