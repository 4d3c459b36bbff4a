package policyoracle

import (
	corev1 "k8s.io/api/core/v1"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// successor converts an AdminNetworkPolicy to the ClusterNetworkPolicy that the API's documentation defines for it.
func successor(p *policyv1alpha1.AdminNetworkPolicy) (c policyv1alpha2.ClusterNetworkPolicy) {
	c.Spec.Tier, c.Spec.Priority = policyv1alpha2.AdminTier, p.Spec.Priority
	c.Spec.Subject = policyv1alpha2.ClusterNetworkPolicySubject{Namespaces: p.Spec.Subject.Namespaces,
		Pods: (*policyv1alpha2.NamespacedPod)(p.Spec.Subject.Pods)}
	for _, rule := range p.Spec.Ingress {
		to := policyv1alpha2.ClusterNetworkPolicyIngressRule{Action: accepted(string(rule.Action)),
			Protocols: portsAsProtocols(rule.Ports)}
		for _, from := range rule.From {
			to.From = append(to.From, policyv1alpha2.ClusterNetworkPolicyIngressPeer{Namespaces: from.Namespaces,
				Pods: (*policyv1alpha2.NamespacedPod)(from.Pods)})
		}
		c.Spec.Ingress = append(c.Spec.Ingress, to)
	}
	for _, rule := range p.Spec.Egress {
		to := policyv1alpha2.ClusterNetworkPolicyEgressRule{Action: accepted(string(rule.Action)), Protocols: portsAsProtocols(rule.Ports)}
		for _, peer := range rule.To {
			said := policyv1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: peer.Namespaces,
				Pods: (*policyv1alpha2.NamespacedPod)(peer.Pods), Nodes: peer.Nodes}
			for _, network := range peer.Networks {
				said.Networks = append(said.Networks, policyv1alpha2.CIDR(network))
			}
			to.To = append(to.To, said)
		}
		c.Spec.Egress = append(c.Spec.Egress, to)
	}
	return c
}

// successorOfBaseline converts a BaselineAdminNetworkPolicy. Its rules equal an AdminNetworkPolicy's without one
// action and one kind of peer.
func successorOfBaseline(p *policyv1alpha1.BaselineAdminNetworkPolicy) policyv1alpha2.ClusterNetworkPolicy {
	same := policyv1alpha1.AdminNetworkPolicy{Spec: policyv1alpha1.AdminNetworkPolicySpec{Subject: p.Spec.Subject}}
	for _, rule := range p.Spec.Ingress {
		same.Spec.Ingress = append(same.Spec.Ingress,
			policyv1alpha1.AdminNetworkPolicyIngressRule{Action: policyv1alpha1.AdminNetworkPolicyRuleAction(
				rule.Action), From: rule.From, Ports: rule.Ports})
	}
	for _, rule := range p.Spec.Egress {
		to := policyv1alpha1.AdminNetworkPolicyEgressRule{Action: policyv1alpha1.AdminNetworkPolicyRuleAction(
			rule.Action), Ports: rule.Ports}
		for _, peer := range rule.To {
			to.To = append(to.To, policyv1alpha1.AdminNetworkPolicyEgressPeer{Namespaces: peer.Namespaces,
				Pods: peer.Pods, Nodes: peer.Nodes, Networks: peer.Networks})
		}
		same.Spec.Egress = append(same.Spec.Egress, to)
	}
	c := successor(&same)
	c.Spec.Tier = policyv1alpha2.BaselineTier
	return c
}

func accepted(action string) policyv1alpha2.ClusterNetworkPolicyRuleAction {
	if action == string(policyv1alpha1.AdminNetworkPolicyRuleActionAllow) {
		return policyv1alpha2.ClusterNetworkPolicyRuleActionAccept
	}
	return policyv1alpha2.ClusterNetworkPolicyRuleAction(action)
}

func portsAsProtocols(list *[]policyv1alpha1.AdminNetworkPolicyPort) (all []policyv1alpha2.ClusterNetworkPolicyProtocol) {
	if list == nil {
		return nil
	}
	for _, said := range *list {
		switch {
		case said.PortNumber != nil:
			all = append(all, protocolWith(said.PortNumber.Protocol, policyv1alpha2.Port{Number: said.PortNumber.Port}))
		case said.PortRange != nil:
			all = append(all, protocolWith(said.PortRange.Protocol,
				policyv1alpha2.Port{Range: &policyv1alpha2.PortRange{Start: said.PortRange.Start,
					End: said.PortRange.End}}))
		default:
			all = append(all, policyv1alpha2.ClusterNetworkPolicyProtocol{DestinationNamedPort: *said.NamedPort})
		}
	}
	return all
}

func protocolWith(protocol corev1.Protocol, port policyv1alpha2.Port) (p policyv1alpha2.ClusterNetworkPolicyProtocol) {
	switch protocolOf(protocol) {
	case corev1.ProtocolUDP:
		p.UDP = &policyv1alpha2.ClusterNetworkPolicyProtocolUDP{DestinationPort: &port}
	case corev1.ProtocolSCTP:
		p.SCTP = &policyv1alpha2.ClusterNetworkPolicyProtocolSCTP{DestinationPort: &port}
	default:
		p.TCP = &policyv1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: &port}
	}
	return p
}
