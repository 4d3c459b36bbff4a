package facts

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// readAdminNetworkPolicy reads an AdminNetworkPolicy of v1alpha1.
func readAdminNetworkPolicy(policy *policyv1alpha1.AdminNetworkPolicy) (ClusterPolicy, clusterPolicySpec) {
	parsed := clusterPolicySpec{subject: adminPods(policy.Spec.Subject), ports: "ports", actions: adminActions()}
	parsed.actions[pass] = Pass
	for _, rule := range policy.Spec.Ingress {
		parsed.ingress = append(parsed.ingress, adminIngress(string(rule.Action), rule.From, rule.Ports))
	}
	for _, rule := range policy.Spec.Egress {
		parsed.egress = append(parsed.egress, adminEgress(string(rule.Action), rule.To, rule.Ports))
	}
	return ClusterPolicy{Kind: KindAdminNetworkPolicy, Name: policy.Name, Priority: int(policy.Spec.Priority)}, parsed
}

// readBaselineAdminNetworkPolicy reads the BaselineAdminNetworkPolicy of v1alpha1. At most one exists.
func readBaselineAdminNetworkPolicy(policy *policyv1alpha1.BaselineAdminNetworkPolicy) (ClusterPolicy, clusterPolicySpec) {
	parsed := clusterPolicySpec{subject: adminPods(policy.Spec.Subject), ports: "ports", actions: adminActions()}
	for _, rule := range policy.Spec.Ingress {
		parsed.ingress = append(parsed.ingress, adminIngress(string(rule.Action), rule.From, rule.Ports))
	}
	for _, rule := range policy.Spec.Egress {
		var peers []policyv1alpha1.AdminNetworkPolicyEgressPeer
		for _, to := range rule.To {
			peers = append(peers, policyv1alpha1.AdminNetworkPolicyEgressPeer{Namespaces: to.Namespaces,
				Pods: to.Pods, Nodes: to.Nodes, Networks: to.Networks})
		}
		parsed.egress = append(parsed.egress, adminEgress(string(rule.Action), peers, rule.Ports))
	}
	return ClusterPolicy{Kind: KindBaselineAdminNetworkPolicy, Name: policy.Name, Baseline: true}, parsed
}

func adminActions() map[string]Action {
	return map[string]Action{string(policyv1alpha1.AdminNetworkPolicyRuleActionAllow): Accept,
		string(policyv1alpha1.AdminNetworkPolicyRuleActionDeny): Deny}
}

func adminIngress(action string, from []policyv1alpha1.AdminNetworkPolicyIngressPeer,
	ports *[]policyv1alpha1.AdminNetworkPolicyPort) clusterRuleSpec {
	read := clusterRuleSpec{action: action, ports: adminPorts(ports)}
	for _, peer := range from {
		read.peers = append(read.peers, clusterPeerSpec{podsSpec: adminPods(policyv1alpha1.AdminNetworkPolicySubject(peer))})
	}
	return read
}

func adminEgress(action string, to []policyv1alpha1.AdminNetworkPolicyEgressPeer,
	ports *[]policyv1alpha1.AdminNetworkPolicyPort) clusterRuleSpec {
	read := clusterRuleSpec{action: action, ports: adminPorts(ports)}
	for _, peer := range to {
		pods := adminPods(policyv1alpha1.AdminNetworkPolicySubject{Namespaces: peer.Namespaces, Pods: peer.Pods})
		read.peers = append(read.peers, clusterPeerSpec{pods, peer.Nodes, texts(peer.Networks), texts(peer.DomainNames)})
	}
	return read
}

func adminPods(subject policyv1alpha1.AdminNetworkPolicySubject) podsSpec {
	return podsSpec{subject.Namespaces, (*policyv1alpha2.NamespacedPod)(subject.Pods)}
}

func adminPorts(list *[]policyv1alpha1.AdminNetworkPolicyPort) (all []clusterPortSpec) {
	if list == nil {
		return nil
	}
	for _, item := range *list {
		var port clusterPortSpec
		switch {
		case item.PortNumber != nil:
			port = clusterPortSpec{protocol: cmp.Or(item.PortNumber.Protocol, corev1.ProtocolTCP),
				first: item.PortNumber.Port, last: item.PortNumber.Port}
		case item.PortRange != nil:
			port = clusterPortSpec{protocol: cmp.Or(item.PortRange.Protocol, corev1.ProtocolTCP),
				first: item.PortRange.Start, last: item.PortRange.End}
		case item.NamedPort != nil:
			port.name = *item.NamedPort
		}
		all = append(all, port)
	}
	return all
}
