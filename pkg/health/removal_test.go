package health

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// The finalizers determine which component reports why a removal waits.
func TestRemovalIsReported(t *testing.T) {
	held := Removing(networkv1alpha1.ReasonPodsRemain, "nothing is removed while 1 pod uses the network: a/b")
	for _, test := range []struct {
		name       string
		deleted    bool
		finalizers []string
		conditions []metav1.Condition
		reason     string // empty: no condition
		says       string
		state      networkv1alpha1.AreaState
	}{
		{name: "not deleted"},
		{name: "not deleted, a condition of another object's status", conditions: []metav1.Condition{held}},
		{"nothing reported", true, []string{networkv1alpha1.OperandsFinalizer}, nil, networkv1alpha1.ReasonRemoving,
			"weft-operands has not reported", networkv1alpha1.StateProgressing},
		{"reported", true, []string{networkv1alpha1.OperandsFinalizer}, []metav1.Condition{held},
			networkv1alpha1.ReasonPodsRemain, "a/b", networkv1alpha1.StateProgressing},
		{"not confirmed", true, []string{networkv1alpha1.OperandsFinalizer},
			[]metav1.Condition{Removing(networkv1alpha1.ReasonWaitingForConfirmation, "m")},
			networkv1alpha1.ReasonWaitingForConfirmation, "m", networkv1alpha1.StateDegraded},
		{"the finalizer is gone", true, []string{"example.org/x"}, []metav1.Condition{held},
			networkv1alpha1.ReasonFinalizersRemain, "example.org/x", networkv1alpha1.StateProgressing},
	} {
		t.Run(test.name, func(t *testing.T) {
			cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default", Finalizers: test.finalizers}}
			cn.Status.Conditions = test.conditions
			if test.deleted {
				cn.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			c := RemovalOf(cn)
			if (c != nil) != (test.reason != "") {
				t.Fatalf("condition %+v, want reason %q", c, test.reason)
			}
			if c == nil {
				return
			}
			if c.Type != networkv1alpha1.ConditionRemoving || c.Status != metav1.ConditionTrue ||
				c.Reason != test.reason || !strings.Contains(c.Message, test.says) {
				t.Errorf("condition %+v, want %s: %s", c, test.reason, test.says)
			}
			p := RemovalProblem("ClusterNetwork/default", *c)
			if p.State != test.state || p.Reason != test.reason || p.NextStep == "" ||
				!strings.HasPrefix(p.Message, "the network is being removed: ") {
				t.Errorf("problem %+v, want %s", p, test.state)
			}
		})
	}
}

// The network works until the removal begins, and must not be upgraded.
func TestConditionsWhileRemoving(t *testing.T) {
	ready := metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: networkv1alpha1.ReasonAsExpected, Message: "well"}
	broken := isFalse(networkv1alpha1.ConditionReady, "Broken")
	available, upgradeable := Available(nil), Upgradeable(nil)
	for _, test := range []struct {
		name, removal string
		condition     metav1.Condition
		status        metav1.ConditionStatus
		reason        string
		says          []string
	}{
		{"ready, held", networkv1alpha1.ReasonPodsRemain, ready, metav1.ConditionTrue, networkv1alpha1.ReasonRemoving,
			[]string{"well; the network is being removed: m"}},
		{"not ready, held", networkv1alpha1.ReasonPodsRemain, broken, metav1.ConditionFalse, "Broken",
			[]string{"Broken; the network is being removed: m"}},
		{"available, held", networkv1alpha1.ReasonWaitingForConfirmation, available, metav1.ConditionTrue,
			available.Reason, []string{available.Message}},
		{"upgradeable, held", networkv1alpha1.ReasonWaitingForConfirmation, upgradeable, metav1.ConditionFalse,
			networkv1alpha1.ReasonRemoving, []string{"m"}},
		{"ready, begun", networkv1alpha1.ReasonRemovingOperands, ready, metav1.ConditionFalse,
			networkv1alpha1.ReasonRemoving, []string{"m"}},
		{"available, begun", networkv1alpha1.ReasonRemovingOperands, available, metav1.ConditionFalse,
			networkv1alpha1.ReasonRemoving, []string{"m"}},
		{"degraded, begun", networkv1alpha1.ReasonRemovingOperands, Degraded(nil), metav1.ConditionFalse,
			networkv1alpha1.ReasonAsExpected, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			removing := Removing(test.removal, "m")
			got := WhileRemoving(test.condition, removing)
			if got.Type != test.condition.Type || got.Status != test.status || got.Reason != test.reason {
				t.Errorf("condition %+v, want %s %s", got, test.status, test.reason)
			}
			for _, part := range test.says {
				if !strings.Contains(got.Message, part) {
					t.Errorf("message %q, want %q", got.Message, part)
				}
			}
		})
	}
}

// The operator and weft-operands write the same once a removal has begun, so that neither reverts the other.
func TestBothWritersAgree(t *testing.T) {
	removing := Removing(networkv1alpha1.ReasonRemovingOperands, "m")
	for _, c := range Removed(removing) {
		if got := WhileRemoving(metav1.Condition{Type: c.Type, Status: metav1.ConditionTrue,
			Reason: networkv1alpha1.ReasonAsExpected}, removing); got != c {
			t.Errorf("the operator writes %+v, weft-operands %+v", got, c)
		}
	}
}
