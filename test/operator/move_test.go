package operator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

const moveEth0 = "eth0 Bridge"

// requestMove reports an agent's request to move its link; reason is the result of the move.
func (w *world) requestMove(node, move, reason string) {
	w.Helper()
	w.until(func() error {
		nn := w.nodeNetwork(node)
		patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		nn.Status.Move = move
		c := metav1.Condition{Type: networkv1alpha1.ConditionGatewayReady, Status: metav1.ConditionFalse,
			Reason: reason, Message: "gateway 192.0.2.254 is silent"}
		meta.SetStatusCondition(&nn.Status.Conditions, c)
		err := api.Status().Patch(w.Context(), nn, patch)
		if err != nil && !apierrors.IsConflict(err) {
			w.Fatal(err)
		}
		return err
	})
}

// mayMove lists the nodes that were allowed to move their links.
func (w *world) mayMove() (names []string) {
	w.Helper()
	var list networkv1alpha1.NodeNetworkList
	w.must(api.List(context.Background(), &list))
	for _, nn := range list.Items {
		if nn.Spec.Gateway.Move == moveEth0 {
			names = append(names, nn.Name)
		}
	}
	return names
}

func (w *world) untilMayMove(count int) (names []string) {
	w.Helper()
	w.until(func() error {
		if names = w.mayMove(); len(names) != count {
			return fmt.Errorf("%v may move, want %d", names, count)
		}
		return nil
	})
	return names
}

// TestNodesMoveTheirLinksInTurn moves one link at a time, and none after a rolled back move, which the
// ClusterNetwork names.
func TestNodesMoveTheirLinksInTurn(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	nodes := []string{"n1", "n2", "n3", "n4"}
	w.join(nodes...)
	for _, node := range nodes {
		w.requestMove(node, moveEth0, networkv1alpha1.ReasonUplinkWaiting)
	}
	first := w.untilMayMove(1)[0]
	w.requestMove(first, moveEth0, networkv1alpha1.ReasonUplinkMoving)
	w.requestMove(first, "", networkv1alpha1.ReasonWaitingForTopology)
	second := other(w.untilMayMove(2), first)
	w.requestMove(second, moveEth0, networkv1alpha1.ReasonUplinkRolledBack)
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		c := meta.FindStatusCondition(s.Conditions, networkv1alpha1.ConditionDegraded)
		if c == nil || !strings.Contains(c.Message,
			"node "+second+": gateway 192.0.2.254 is silent; until that is settled these nodes do not move their links: n") {
			return fmt.Errorf("condition is %+v", c)
		}
		return condition(s.Conditions, networkv1alpha1.ConditionDegraded, networkv1alpha1.ReasonUplinkRolledBack, metav1.ConditionTrue)
	})

	o.stop()
	w.start() // a new process does not allow moves either
	w.register("n5")
	w.nodeNetwork("n5")
	if got := w.mayMove(); len(got) != 2 {
		t.Errorf("%v may move after %s failed", got, second)
	}
	w.requestMove(second, "", networkv1alpha1.ReasonWaitingForTopology)
	w.untilMayMove(3)
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionDegraded, networkv1alpha1.ReasonAsExpected, metav1.ConditionFalse)
	})

	cn := &networkv1alpha1.ClusterNetwork{}
	w.must(api.Get(t.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, cn))
	patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) { cn.Spec.Gateway.MaxMoving = 2 })
	w.untilMayMove(4)
}

func other(names []string, than string) string {
	for _, name := range names {
		if name != than {
			return name
		}
	}
	return ""
}
