package facts

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Move returns the move of its link that a node may make: an earlier permission, or the node's request when it is its
// turn. At most atATime nodes move at once, and no further node after one whose move was rolled back. A permission
// lasts, so that the node needs no new one after its next boot.
//
//	agent: status.move ──▶ operator: spec.gateway.move ──▶ agent moves; status.move goes when the link is on its bridge
func Move(node *networkv1alpha1.NodeNetwork, others []networkv1alpha1.NodeNetwork, atATime int32) string {
	if !requestsMove(node) {
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

// WaitingToMove lists the nodes that wait for their turn to move.
func WaitingToMove(nodes []networkv1alpha1.NodeNetwork) (names []string) {
	for i := range nodes {
		if requestsMove(&nodes[i]) {
			names = append(names, nodes[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

func requestsMove(node *networkv1alpha1.NodeNetwork) bool {
	return node.Status.Move != "" && node.Status.Move != node.Spec.Gateway.Move
}

// isMoving reports whether a node has permission to move and has not reported the outcome. A node that refused its
// move has changed nothing and does not count.
func isMoving(node *networkv1alpha1.NodeNetwork) bool {
	return node.Status.Move != "" && !requestsMove(node) && reasonOfGateway(node) != networkv1alpha1.ReasonUplinkRefused
}

// RolledBack describes a node's rolled-back move. It is empty if the node has none.
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

// MoveState returns a node's state as far as the turns of other nodes depend on it.
func MoveState(node *networkv1alpha1.NodeNetwork) string {
	return fmt.Sprint(node.Status.Move, isMoving(node), RolledBack(node), node.Spec.Gateway.Unconfirmed, stateOfGateway(node))
}
