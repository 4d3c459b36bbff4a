package facts

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// pass leaves the decision to later tiers. Both versions of the API use this name.
const pass = "Pass"

// readClusterNetworkPolicy reads a ClusterNetworkPolicy of v1alpha2.
func readClusterNetworkPolicy(policy *policyv1alpha2.ClusterNetworkPolicy) (facts ClusterPolicy, parsed clusterPolicySpec, err error) {
	spec := &policy.Spec
	facts = ClusterPolicy{Kind: KindClusterNetworkPolicy, Name: policy.Name,
		Baseline: spec.Tier == policyv1alpha2.BaselineTier, Priority: int(spec.Priority)}
	parsed = clusterPolicySpec{subject: podsSpec{spec.Subject.Namespaces, spec.Subject.Pods}, ports: "protocols",
		actions: actionsOfTier(facts.Baseline)}
	for _, rule := range spec.Ingress {
		read := clusterRuleSpec{action: string(rule.Action), ports: protocolSpecs(rule.Protocols)}
		for _, from := range rule.From {
			read.peers = append(read.peers, clusterPeerSpec{podsSpec: podsSpec{from.Namespaces, from.Pods}})
		}
		parsed.ingress = append(parsed.ingress, read)
	}
	for _, rule := range spec.Egress {
		read := clusterRuleSpec{action: string(rule.Action), ports: protocolSpecs(rule.Protocols)}
		for _, to := range rule.To {
			read.peers = append(read.peers, clusterPeerSpec{podsSpec{to.Namespaces, to.Pods}, to.Nodes,
				texts(to.Networks), texts(to.DomainNames)})
		}
		parsed.egress = append(parsed.egress, read)
	}
	if !facts.Baseline && spec.Tier != policyv1alpha2.AdminTier {
		err = fmt.Errorf("spec.tier: %q is not Admin or Baseline", spec.Tier)
	}
	return facts, parsed, err
}

// actionsOfTier maps the actions of rules. No tier follows the baseline tier, so that to pass means to accept there.
func actionsOfTier(baseline bool) map[string]Action {
	actions := map[string]Action{
		string(policyv1alpha2.ClusterNetworkPolicyRuleActionAccept): Accept,
		string(policyv1alpha2.ClusterNetworkPolicyRuleActionDeny):   Deny, pass: Pass}
	if baseline {
		actions[pass] = Accept
	}
	return actions
}

func protocolSpecs(list []policyv1alpha2.ClusterNetworkPolicyProtocol) (all []clusterPortSpec) {
	for _, item := range list {
		switch {
		case item.TCP != nil:
			all = append(all, portSpec(corev1.ProtocolTCP, item.TCP.DestinationPort))
		case item.UDP != nil:
			all = append(all, portSpec(corev1.ProtocolUDP, item.UDP.DestinationPort))
		case item.SCTP != nil:
			all = append(all, portSpec(corev1.ProtocolSCTP, item.SCTP.DestinationPort))
		default:
			all = append(all, clusterPortSpec{name: item.DestinationNamedPort})
		}
	}
	return all
}

func portSpec(protocol corev1.Protocol, port *policyv1alpha2.Port) clusterPortSpec {
	switch {
	case port == nil:
		return clusterPortSpec{protocol: protocol, all: true}
	case port.Range != nil:
		return clusterPortSpec{protocol: protocol, first: port.Range.Start, last: port.Range.End}
	}
	return clusterPortSpec{protocol: protocol, first: port.Number, last: port.Number}
}
