package facts

import (
	"errors"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
)

// MultiNetworkPolicy holds the facts for topology.MultiNetworkPolicyUnit: the facts of a NetworkPolicy, and the Networks to
// which it applies.
type MultiNetworkPolicy struct {
	NetworkPolicy
	Networks []string
}

// ParseMultiNetworkPolicy reads a MultiNetworkPolicy for pods' ports on Networks. It returns the errors
// of ParseNetworkPolicy. A policy with an unreadable policyType isolates in both directions, because its
// CustomResourceDefinition may allow any text.
func ParseMultiNetworkPolicy(o *cniv1beta1.MultiNetworkPolicy, networks []string, numbers Numbers) (MultiNetworkPolicy, error) {
	both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	same := networkingv1.NetworkPolicy{ObjectMeta: o.ObjectMeta, Spec: o.Spec}
	var wrong []error
	for i, t := range o.Spec.PolicyTypes {
		if !slices.Contains(both, t) {
			wrong = append(wrong, fmt.Errorf("spec.policyTypes[%d]: %q is not Ingress or Egress", i, t))
			same.Spec.PolicyTypes = both
		}
	}
	facts, err := ParseNetworkPolicy(&same, numbers)
	return MultiNetworkPolicy{facts, networks}, errors.Join(append(wrong, err)...)
}

// On returns the policy for pods' ports on a Network.
func (p NetworkPolicy) On(network string) NetworkPolicy {
	p.Subject = p.Subject.On(network)
	p.Ingress, p.Egress = p.Ingress.on(network), p.Egress.on(network)
	return p
}

func (r *PolicyRules) on(network string) *PolicyRules {
	if r == nil {
		return nil
	}
	rules := slices.Clone(r.Rules)
	for i := range rules {
		rules[i].Network, rules[i].Peers = network, slices.Clone(rules[i].Peers)
		for j, peer := range rules[i].Peers {
			if peer.Pods != nil {
				pods := peer.Pods.On(network)
				rules[i].Peers[j].Pods = &pods
			}
		}
	}
	return &PolicyRules{Rules: rules}
}
