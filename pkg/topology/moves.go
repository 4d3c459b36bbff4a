package topology

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Move says which move of its link a node may make: what it was allowed, or what it asks for when it is its turn. At most so many nodes move at
// a time, and none after one whose move was rolled back. What a node may do stays allowed: after its next boot it needs to ask nobody.
//
//	agent: status.move ──▶ operator: spec.gateway.move ──▶ agent moves; status.move goes when the link is on its bridge
func Move(node *networkv1alpha1.NodeNetwork, others []networkv1alpha1.NodeNetwork, atATime int32) string {
	if !asks(node) {
		return node.Spec.Gateway.Move
	}
	moving := int32(0)
	for i := range others {
		switch {
		case others[i].Name == node.Name:
		case RolledBack(&others[i]) != "":
			return node.Spec.Gateway.Move
		case isMoving(&others[i]):
			moving++
		}
	}
	if moving >= max(1, atATime) {
		return node.Spec.Gateway.Move
	}
	return node.Status.Move
}

// Asking are the nodes that wait for their turn.
func Asking(nodes []networkv1alpha1.NodeNetwork) (names []string) {
	for i := range nodes {
		if asks(&nodes[i]) {
			names = append(names, nodes[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

func asks(node *networkv1alpha1.NodeNetwork) bool {
	return node.Status.Move != "" && node.Status.Move != node.Spec.Gateway.Move
}

// isMoving: a node that may move and has not said what became of it. One that was refused has changed nothing.
func isMoving(node *networkv1alpha1.NodeNetwork) bool {
	return node.Status.Move != "" && !asks(node) && reasonOfGateway(node) != networkv1alpha1.ReasonUplinkRefused
}

// RolledBack says what became of a node's move that was undone; empty: it has none.
func RolledBack(node *networkv1alpha1.NodeNetwork) string {
	if node.Status.Move == "" || reasonOfGateway(node) != networkv1alpha1.ReasonUplinkRolledBack {
		return ""
	}
	return fmt.Sprintf("node %s: %s", node.Name, gatewayReady(node).Message)
}

func reasonOfGateway(node *networkv1alpha1.NodeNetwork) string { return gatewayReady(node).Reason }

func gatewayReady(node *networkv1alpha1.NodeNetwork) metav1.Condition {
	for _, c := range node.Status.Conditions {
		if c.Type == networkv1alpha1.ConditionGatewayReady {
			return c
		}
	}
	return metav1.Condition{}
}

// MoveState is what of a node others' turns depend on.
func MoveState(node *networkv1alpha1.NodeNetwork) string {
	return fmt.Sprint(node.Status.Move, isMoving(node), RolledBack(node))
}
