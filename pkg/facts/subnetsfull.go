package facts

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// fullReasons has the families, true for IPv4, of each reason of the condition SubnetsFull.
var fullReasons = map[string][]bool{
	networkv1alpha1.ReasonIPv4Exhausted:      {true},
	networkv1alpha1.ReasonIPv6Exhausted:      {false},
	networkv1alpha1.ReasonAddressesExhausted: {true, false},
}

// SubnetsFull returns the condition by which a zone's operator requests further subnets for a node. families, true for
// IPv4, are the families in which a pod finds no address; there must be one. The request is about the node's present spec.
func SubnetsFull(nn *networkv1alpha1.NodeNetwork, families []bool) metav1.Condition {
	c := metav1.Condition{Type: networkv1alpha1.ConditionSubnetsFull, Status: metav1.ConditionTrue, ObservedGeneration: nn.Generation}
	switch {
	case !slices.Contains(families, false):
		c.Reason, c.Message = networkv1alpha1.ReasonIPv4Exhausted, "a pod waits for an IPv4 address"
	case !slices.Contains(families, true):
		c.Reason, c.Message = networkv1alpha1.ReasonIPv6Exhausted, "a pod waits for an IPv6 address"
	default:
		c.Reason, c.Message = networkv1alpha1.ReasonAddressesExhausted, "a pod waits for an IPv4 and an IPv6 address"
	}
	return c
}

// FullFamilies returns the families, true for IPv4, in which a NodeNetwork's condition SubnetsFull requests further
// subnets. A condition about an earlier spec requests nothing, because the present spec may have the subnets.
func FullFamilies(nn *networkv1alpha1.NodeNetwork) []bool {
	for _, c := range nn.Status.Conditions {
		if c.Type == networkv1alpha1.ConditionSubnetsFull && c.Status == metav1.ConditionTrue && c.ObservedGeneration == nn.Generation {
			return slices.Clone(fullReasons[c.Reason])
		}
	}
	return nil
}
