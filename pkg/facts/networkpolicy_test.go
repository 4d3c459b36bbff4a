package facts_test

import (
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/weft-network/weft/pkg/facts"
)

// Exceptions leave many networks, and each is a flow on each node of the policy's pods. A block that is too many allows nothing.
func TestABlockOfTooManyNetworks(t *testing.T) {
	half := &networkingv1.IPBlock{CIDR: "10.0.0.0/15"} // every second address
	for i := range facts.MaxPolicyNetworks {
		half.Except = append(half.Except, fmt.Sprintf("10.%d.%d.%d/32", i>>15, i>>7&255, i<<1&255))
	}
	np := &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Ingress"},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{IPBlock: half}}},
			{From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/24"}}}}}}}
	read, err := facts.ParseNetworkPolicy(np, nil)
	const want = "spec.ingress[1].from[0].ipBlock: without their exceptions, the blocks of the policy are 65537 networks, more than 65536"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	rules := read.Ingress.Rules
	if got := len(rules[0].Networks()); got != facts.MaxPolicyNetworks || len(rules[1].Networks()) > 0 {
		t.Errorf("the rules have %d and %d networks", got, len(rules[1].Networks()))
	}
}
