package facts_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// A node in Local mode has a gateway router if it may carry egress IPs and everything that the router needs is known.
func TestHasEgressRouter(t *testing.T) {
	for name, c := range map[string]struct {
		change func(nn *networkv1alpha1.NodeNetwork, node *corev1.Node)
		want   bool
	}{
		"complete":     {func(*networkv1alpha1.NodeNetwork, *corev1.Node) {}, true},
		"cordoned":     {func(_ *networkv1alpha1.NodeNetwork, node *corev1.Node) { node.Spec.Unschedulable = true }, true},
		"unlabelled":   {func(_ *networkv1alpha1.NodeNetwork, node *corev1.Node) { node.Labels = nil }, false},
		"an old agent": {func(nn *networkv1alpha1.NodeNetwork, _ *corev1.Node) { nn.Status.Gateway.AnswersForAddresses = false }, false},
		"no chassis":   {func(nn *networkv1alpha1.NodeNetwork, _ *corev1.Node) { nn.Status.Chassis = "" }, false},
		"no link":      {func(nn *networkv1alpha1.NodeNetwork, _ *corev1.Node) { nn.Status.Gateway.Addresses = nil }, false},
		"Shared": {func(nn *networkv1alpha1.NodeNetwork, _ *corev1.Node) {
			nn.Status.Gateway.Mode, nn.Status.Gateway.MACAddress = networkv1alpha1.GatewayShared, "02:00:00:00:00:01"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{networkv1alpha1.EgressAssignableLabel: ""}}}
			nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
				Spec: networkv1alpha1.NodeNetworkSpec{NodeID: 1, PodSubnets: []networkv1alpha1.CIDR{"10.244.0.0/24"},
					JoinAddresses: []networkv1alpha1.InterfaceAddress{"100.64.0.2/16"}, ClusterSubnets: []networkv1alpha1.CIDR{"10.244.0.0/16"},
					ManagementPort: networkv1alpha1.ManagementPort{MACAddress: "0a:58:0a:f4:00:02"}},
				Status: networkv1alpha1.NodeNetworkStatus{Chassis: "c1", Gateway: &networkv1alpha1.NodeGatewayStatus{
					Mode: networkv1alpha1.GatewayLocal, AnswersForAddresses: true, Addresses: []networkv1alpha1.InterfaceAddress{"192.0.2.1/24"},
					FurtherLinks: []networkv1alpha1.NodeLink{{Name: "eth1",
						Addresses: []networkv1alpha1.InterfaceAddress{"198.51.100.1/24"}}}}}}
			c.change(nn, node)
			g, err := facts.ParseGateway(nn, node)
			if err != nil || g.HasEgressRouter() != c.want || g.HasEgressRouter() && g.HasRouter() {
				t.Fatalf("%t, %v; want %t", g.HasEgressRouter(), err, c.want)
			}
			if text := fmt.Sprint(facts.CarrierOf(g).Networks); c.want && text != "[192.0.2.1/24 198.51.100.1/24]" {
				t.Errorf("egress IPs may be in %s", text)
			}
			carrier := facts.CarrierOf(g)
			if carrier.Router != (g.HasEgressRouter() || g.HasRouter()) {
				t.Errorf("carrier %+v", carrier)
			}
		})
	}
}
