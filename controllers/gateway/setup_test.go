package gateway

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// A node that begins or ends to be one for egress IPs is reconciled, and not for other labels.
func TestLabelsThatConcernTheGateway(t *testing.T) {
	labelled := func(labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: labels}}
	}
	plain, carrier := labelled(map[string]string{"a": "b"}), labelled(map[string]string{networkv1alpha1.EgressAssignableLabel: ""})
	for name, c := range map[string]struct {
		before, after *corev1.Node
		want          bool
	}{
		"begins":        {plain, carrier, true},
		"ends":          {carrier, plain, true},
		"another label": {plain, labelled(nil), false},
	} {
		if got := nodeChanged(c.before, c.after); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A node is reconciled when its agent reports something that its gateway's rows depend on.
func TestReportsThatConcernTheGateway(t *testing.T) {
	for name, c := range map[string]struct {
		report func(*networkv1alpha1.NodeNetworkStatus)
		want   bool
	}{
		"another address": {func(s *networkv1alpha1.NodeNetworkStatus) { s.HostAddresses = []networkv1alpha1.IP{"169.254.20.10"} }, true},
		"its chassis":     {func(s *networkv1alpha1.NodeNetworkStatus) { s.Chassis = "c" }, true},
		"its link":        {func(s *networkv1alpha1.NodeNetworkStatus) { s.Gateway = &networkv1alpha1.NodeGatewayStatus{} }, true},
		"its tunnels":     {func(s *networkv1alpha1.NodeNetworkStatus) { s.EncapIP = "192.0.2.1" }, false},
	} {
		before, after := &networkv1alpha1.NodeNetwork{}, &networkv1alpha1.NodeNetwork{}
		c.report(&after.Status)
		if networkChanged(before, after) != c.want || networkChanged(after, before) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}
