package topology

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weft-network/weft/pkg/nbdb"
)

// pass leaves the decision to those behind, in both versions of the API.
const pass = "Pass"

// readClusterNetworkPolicy reads v1alpha2.
func readClusterNetworkPolicy(policy *policyv1alpha2.ClusterNetworkPolicy) (facts ClusterPolicy, said clusterPolicySpec, err error) {
	spec := &policy.Spec
	facts = ClusterPolicy{Kind: KindClusterNetworkPolicy, Name: policy.Name, Baseline: spec.Tier == policyv1alpha2.BaselineTier, Priority: int(spec.Priority)}
	said = clusterPolicySpec{subject: podsSpec{spec.Subject.Namespaces, spec.Subject.Pods}, ports: "protocols", actions: actionsOfTier(facts.Baseline)}
	for _, rule := range spec.Ingress {
		read := clusterRuleSpec{action: string(rule.Action), ports: protocolSpecs(rule.Protocols)}
		for _, from := range rule.From {
			read.peers = append(read.peers, clusterPeerSpec{podsSpec: podsSpec{from.Namespaces, from.Pods}})
		}
		said.ingress = append(said.ingress, read)
	}
	for _, rule := range spec.Egress {
		read := clusterRuleSpec{action: string(rule.Action), ports: protocolSpecs(rule.Protocols)}
		for _, to := range rule.To {
			read.peers = append(read.peers, clusterPeerSpec{podsSpec{to.Namespaces, to.Pods}, to.Nodes, texts(to.Networks), len(to.DomainNames) > 0})
		}
		said.egress = append(said.egress, read)
	}
	if !facts.Baseline && spec.Tier != policyv1alpha2.AdminTier {
		err = fmt.Errorf("spec.tier: %q is not Admin or Baseline", spec.Tier)
	}
	return facts, said, err
}

// actionsOfTier are what rules do. Behind the baseline tier there is nothing: to pass is to accept there.
func actionsOfTier(baseline bool) map[string]nbdb.ACLAction {
	actions := map[string]nbdb.ACLAction{
		string(policyv1alpha2.ClusterNetworkPolicyRuleActionAccept): nbdb.ACLActionAllowRelated,
		string(policyv1alpha2.ClusterNetworkPolicyRuleActionDeny):   nbdb.ACLActionDrop, pass: nbdb.ACLActionPass}
	if baseline {
		actions[pass] = nbdb.ACLActionAllowRelated
	}
	return actions
}

func protocolSpecs(list []policyv1alpha2.ClusterNetworkPolicyProtocol) (all []clusterPortSpec) {
	for _, said := range list {
		switch {
		case said.TCP != nil:
			all = append(all, portSpec(corev1.ProtocolTCP, said.TCP.DestinationPort))
		case said.UDP != nil:
			all = append(all, portSpec(corev1.ProtocolUDP, said.UDP.DestinationPort))
		case said.SCTP != nil:
			all = append(all, portSpec(corev1.ProtocolSCTP, said.SCTP.DestinationPort))
		default:
			all = append(all, clusterPortSpec{name: said.DestinationNamedPort})
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
