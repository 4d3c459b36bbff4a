package facts

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// gatewayState is how far the change of a node's gateway is.
type gatewayState string

const (
	gatewaySettled  gatewayState = "settled"  // no change is unconfirmed
	gatewayChanging gatewayState = "changing" // the node has not reported the outcome
	gatewayFailed   gatewayState = "failed"   // the node reports that the changed gateway does not work
	gatewayKept     gatewayState = "kept"     // the node lacks the link or does not move it, and kept its former gateway
)

// NextGateway returns the gateway that a node's spec gets: the wanted one when it is the node's turn, or else the present one. At most
// atATime nodes have a changed gateway of which they have not reported that it works, and no further node gets it after a node on which
// it does not work. live is false if the node's kubelet is silent: the other nodes do not wait for its report.
//
//	wanted differs ──▶ spec.gateway with unconfirmed ──▶ agent: GatewayReady ──▶ unconfirmed is removed; the next nodes
//
// A node without a gateway gets the wanted one at once, and so does a node whose gateway has not worked before.
func NextGateway(node *networkv1alpha1.NodeNetwork, wanted networkv1alpha1.NodeGateway, live bool,
	others []networkv1alpha1.NodeNetwork, atATime int32) networkv1alpha1.NodeGateway {
	have := node.Spec.Gateway
	state := stateOfGateway(node)
	wanted.Move, wanted.Unconfirmed = have.Move, have.Unconfirmed
	switch ready := gatewayReady(node); {
	case have.Mode == "":
		return wanted
	case len(GatewayChange(have, wanted)) == 0:
		wanted.Unconfirmed = have.Unconfirmed && state != gatewaySettled
		return wanted
	case state == gatewayChanging, state == gatewayFailed: // a correction
		return wanted
	case !live:
		wanted.Unconfirmed = false
	case ready.Status == metav1.ConditionTrue:
		wanted.Unconfirmed = true
	}
	if !wanted.Unconfirmed {
		return wanted
	}
	changing := int32(0)
	for i := range others {
		if others[i].Name == node.Name {
			continue
		}
		switch stateOfGateway(&others[i]) {
		case gatewayFailed:
			return have
		case gatewayChanging:
			changing++
		}
	}
	if changing >= max(1, atATime) {
		return have
	}
	return wanted
}

// stateOfGateway returns how far the change of a node's gateway is.
func stateOfGateway(node *networkv1alpha1.NodeNetwork) gatewayState {
	if !node.Spec.Gateway.Unconfirmed {
		return gatewaySettled
	}
	for _, c := range node.Status.Conditions {
		if c.Type == networkv1alpha1.ConditionGatewayAccepted && c.Status == metav1.ConditionFalse {
			return gatewayFailed
		}
	}
	ready := gatewayReady(node)
	if ready.Type == "" || ready.ObservedGeneration < node.Generation {
		return gatewayChanging
	}
	if ready.Status == metav1.ConditionTrue {
		return gatewaySettled
	}
	switch ready.Reason {
	case networkv1alpha1.ReasonWaitingForTopology, networkv1alpha1.ReasonUplinkWaiting, networkv1alpha1.ReasonUplinkMoving,
		networkv1alpha1.ReasonDatabaseUnavailable, networkv1alpha1.ReasonNotReady, networkv1alpha1.ReasonWaitingForSpec:
		return gatewayChanging
	case networkv1alpha1.ReasonNoUplink, networkv1alpha1.ReasonUplinkRefused:
		if node.Status.Gateway != nil {
			return gatewayKept
		}
	}
	return gatewayFailed
}

// FailedGateway says why a node's changed gateway does not work. It is empty unless the node reports that.
func FailedGateway(node *networkv1alpha1.NodeNetwork) string {
	if stateOfGateway(node) != gatewayFailed {
		return ""
	}
	for _, c := range node.Status.Conditions {
		if c.Type == networkv1alpha1.ConditionGatewayAccepted && c.Status == metav1.ConditionFalse {
			return fmt.Sprintf("node %s: %s", node.Name, c.Message)
		}
	}
	return fmt.Sprintf("node %s: %s", node.Name, gatewayReady(node).Message)
}

// GatewayChange lists the fields in which two gateways differ, apart from the course of their change.
func GatewayChange(a, b networkv1alpha1.NodeGateway) (fields []string) {
	for _, f := range []struct {
		name string
		same bool
	}{
		{"mode", a.Mode == b.Mode}, {"uplink", a.Uplink == b.Uplink}, {"interface", a.Interface == b.Interface},
		{"nextHops", slices.Equal(a.NextHops, b.NextHops)}, {"snat", a.SNAT == b.SNAT},
		{"nodePortAddresses", slices.Equal(a.NodePortAddresses, b.NodePortAddresses)},
	} {
		if !f.same {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// IsSilent reports whether kubelet's heartbeats of a node stopped. Its agent's last report may then be outdated.
func IsSilent(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionUnknown
		}
	}
	return false
}
