package health

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Removing returns the condition Removing of a ClusterNetwork that is being deleted. Its status is true.
func Removing(reason, message string) metav1.Condition {
	return metav1.Condition{Type: networkv1alpha1.ConditionRemoving, Status: metav1.ConditionTrue, Reason: reason, Message: Cut(message)}
}

// FinalizersRemain returns the condition Removing of a ClusterNetwork without the finalizer of weft-operands.
func FinalizersRemain(finalizers []string) metav1.Condition {
	return Removing(networkv1alpha1.ReasonFinalizersRemain,
		fmt.Sprintf("the deletion removes nothing from any node; the ClusterNetwork waits for %s to remove the finalizer",
			NameSome(finalizers)))
}

// RemovalOf returns the condition Removing of a ClusterNetwork. It is nil while the ClusterNetwork is not being
// deleted. RemovalOf keeps the condition that weft-operands wrote.
func RemovalOf(cn *networkv1alpha1.ClusterNetwork) *metav1.Condition {
	if cn.DeletionTimestamp.IsZero() {
		return nil
	}
	c, reported := find(cn.Status.Conditions, networkv1alpha1.ConditionRemoving)
	if !slices.Contains(cn.Finalizers, networkv1alpha1.OperandsFinalizer) {
		c = FinalizersRemain(cn.Finalizers)
	} else if !reported {
		c = Removing(networkv1alpha1.ReasonRemoving,
			"weft-operands has not reported yet why the removal waits; nothing is removed until it does")
	}
	return &c
}

// RemovalProblem returns the problem for a condition Removing.
func RemovalProblem(object string, c metav1.Condition) networkv1alpha1.Problem {
	state := networkv1alpha1.StateProgressing
	if c.Reason == networkv1alpha1.ReasonWaitingForConfirmation {
		state = networkv1alpha1.StateDegraded // a person must decide
	}
	return New(networkv1alpha1.AreaControlPlane, state, c.Reason, object, RemovalText(c))
}

// RemovalText returns a condition Removing in one line.
func RemovalText(c metav1.Condition) string {
	return Cut("the network is being removed: " + c.Message)
}

// WhileRemoving returns a summary condition of a network that is being removed. The network works until the removal
// begins. From then on it is neither ready nor available.
func WhileRemoving(c metav1.Condition, removing metav1.Condition) metav1.Condition {
	begun := removing.Reason == networkv1alpha1.ReasonRemovingOperands
	switch c.Type {
	case networkv1alpha1.ConditionUpgradeable:
		return removed(c.Type, removing)
	case networkv1alpha1.ConditionReady, networkv1alpha1.ConditionAvailable:
		if begun {
			return removed(c.Type, removing)
		}
		if c.Type == networkv1alpha1.ConditionReady {
			c.Message = Cut(strings.TrimPrefix(c.Message+"; ", "; ") + RemovalText(removing))
			if c.Status == metav1.ConditionTrue {
				c.Reason = networkv1alpha1.ReasonRemoving
			}
		}
	}
	return c
}

// Removed returns the conditions of a network whose removal has begun, and which has no operator any more.
func Removed(removing metav1.Condition) []metav1.Condition {
	return []metav1.Condition{removed(networkv1alpha1.ConditionReady, removing), removed(networkv1alpha1.ConditionAvailable, removing),
		removed(networkv1alpha1.ConditionUpgradeable, removing)}
}

func removed(kind string, removing metav1.Condition) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: networkv1alpha1.ReasonRemoving,
		Message: RemovalText(removing)}
}
