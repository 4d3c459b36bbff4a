package facts_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// An unreadable selector is found whichever labels nodes have, even if an earlier selector matches all of them.
func TestASelectorThatCannotBeReadIsFound(t *testing.T) {
	bad := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: "in", Values: []string{"a"}}}}
	gateway := networkv1alpha1.Gateway{Overrides: []networkv1alpha1.GatewayOverride{{},
		{NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}}
	if err := facts.CheckGateway(gateway); err != nil {
		t.Error(err)
	}
	gateway.Overrides = append(gateway.Overrides, networkv1alpha1.GatewayOverride{NodeSelector: bad})
	if err := facts.CheckGateway(gateway); err == nil || !strings.Contains(err.Error(), "spec.gateway.overrides[2].nodeSelector") {
		t.Errorf("the error is %v", err)
	}
}
