package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/facts"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

// Inequalities of IPv6 networks multiply: each is up to 128 flows, and three in one match are their product.
// Exceptions are therefore removed from the network, so that a match is a sum: at most one network for each bit of
// each exception, besides the ports.
func TestExceptionsDoNotMultiply(t *testing.T) {
	networks := func(excepted, ports int) (count int) {
		t.Helper()
		block := &networkingv1.IPBlock{CIDR: "::/0"}
		for i := range excepted {
			block.Except = append(block.Except, fmt.Sprintf("%x:%x::/64", 0x2000+0x0801*i, 0x0db8+i))
		}
		rule := networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{{IPBlock: block}}}
		for i := range ports {
			protocol, port := corev1.ProtocolTCP, intstr.FromInt32(int32(80+2*i))
			rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &port})
		}
		read, err := facts.ParseNetworkPolicy(
			&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}, Spec: networkingv1.NetworkPolicySpec{
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
				Egress:      []networkingv1.NetworkPolicyEgressRule{rule}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range topology.NetworkPolicyUnit(read).Rows {
			acl, ok := row.Model.(*nbdb.ACL)
			if !ok {
				continue
			}
			if strings.Contains(acl.Match, "!") {
				t.Errorf("an inequality: %s", acl.Match)
			}
			count += strings.Count(acl.Match, "/")
		}
		return count
	}
	one, three := networks(1, 1), networks(3, 1)
	if one == 0 || one > 64 || three > 3*64 {
		t.Errorf("%d networks without one, %d without three", one, three)
	}
	if with := networks(3, 10); with != three {
		t.Errorf("%d networks for one port, %d for ten", three, with)
	}
}
