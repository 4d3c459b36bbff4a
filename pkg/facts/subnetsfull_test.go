package facts

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// A request is read as it was made, until the node has another spec.
func TestARequestForSubnets(t *testing.T) {
	for reason, families := range map[string][]bool{
		networkv1alpha1.ReasonIPv4Exhausted: {true}, networkv1alpha1.ReasonIPv6Exhausted: {false},
		networkv1alpha1.ReasonAddressesExhausted: {true, false},
	} {
		nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1", Generation: 3}}
		if got := FullFamilies(nn); len(got) > 0 {
			t.Errorf("without a condition: %v", got)
		}
		slices.Reverse(families)
		c := SubnetsFull(nn, families)
		if c.Reason != reason || c.Type != networkv1alpha1.ConditionSubnetsFull || c.Status != metav1.ConditionTrue || c.Message == "" {
			t.Errorf("%v: %+v", families, c)
		}
		nn.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue}, c}
		slices.Reverse(families)
		if got := FullFamilies(nn); !slices.Equal(got, families) {
			t.Errorf("%s: read %v, want %v", reason, got, families)
		}
		nn.Generation++
		if got := FullFamilies(nn); len(got) > 0 {
			t.Errorf("%s: read %v of an earlier spec", reason, got)
		}
		nn.Status.Conditions[1] = SubnetsFull(nn, families)
		nn.Status.Conditions[1].Reason = "Other"
		if got := FullFamilies(nn); len(got) > 0 {
			t.Errorf("read %v of an unknown reason", got)
		}
	}
}
