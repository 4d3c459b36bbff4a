package topology

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weft-network/weft/pkg/nbdb"
)

// readAdminNetworkPolicy reads v1alpha1.
func readAdminNetworkPolicy(policy *policyv1alpha1.AdminNetworkPolicy) (ClusterPolicy, clusterPolicySpec) {
	said := clusterPolicySpec{subject: adminPods(policy.Spec.Subject), ports: "ports", actions: adminActions()}
	said.actions[pass] = nbdb.ACLActionPass
	for _, rule := range policy.Spec.Ingress {
		said.ingress = append(said.ingress, adminIngress(string(rule.Action), rule.From, rule.Ports))
	}
	for _, rule := range policy.Spec.Egress {
		said.egress = append(said.egress, adminEgress(string(rule.Action), rule.To, rule.Ports))
	}
	return ClusterPolicy{Kind: KindAdminNetworkPolicy, Name: policy.Name, Priority: int(policy.Spec.Priority)}, said
}

// readBaselineAdminNetworkPolicy reads v1alpha1's policy of the baseline, of which there is one.
func readBaselineAdminNetworkPolicy(policy *policyv1alpha1.BaselineAdminNetworkPolicy) (ClusterPolicy, clusterPolicySpec) {
	said := clusterPolicySpec{subject: adminPods(policy.Spec.Subject), ports: "ports", actions: adminActions()}
	for _, rule := range policy.Spec.Ingress {
		said.ingress = append(said.ingress, adminIngress(string(rule.Action), rule.From, rule.Ports))
	}
	for _, rule := range policy.Spec.Egress {
		var peers []policyv1alpha1.AdminNetworkPolicyEgressPeer
		for _, to := range rule.To {
			peers = append(peers, policyv1alpha1.AdminNetworkPolicyEgressPeer{Namespaces: to.Namespaces, Pods: to.Pods, Nodes: to.Nodes, Networks: to.Networks})
		}
		said.egress = append(said.egress, adminEgress(string(rule.Action), peers, rule.Ports))
	}
	return ClusterPolicy{Kind: KindBaselineAdminNetworkPolicy, Name: policy.Name, Baseline: true}, said
}

func adminActions() map[string]nbdb.ACLAction {
	return map[string]nbdb.ACLAction{string(policyv1alpha1.AdminNetworkPolicyRuleActionAllow): nbdb.ACLActionAllowRelated,
		string(policyv1alpha1.AdminNetworkPolicyRuleActionDeny): nbdb.ACLActionDrop}
}

func adminIngress(action string, from []policyv1alpha1.AdminNetworkPolicyIngressPeer, ports *[]policyv1alpha1.AdminNetworkPolicyPort) clusterRuleSpec {
	read := clusterRuleSpec{action: action, ports: adminPorts(ports)}
	for _, peer := range from {
		read.peers = append(read.peers, clusterPeerSpec{podsSpec: adminPods(policyv1alpha1.AdminNetworkPolicySubject(peer))})
	}
	return read
}

func adminEgress(action string, to []policyv1alpha1.AdminNetworkPolicyEgressPeer, ports *[]policyv1alpha1.AdminNetworkPolicyPort) clusterRuleSpec {
	read := clusterRuleSpec{action: action, ports: adminPorts(ports)}
	for _, peer := range to {
		pods := adminPods(policyv1alpha1.AdminNetworkPolicySubject{Namespaces: peer.Namespaces, Pods: peer.Pods})
		read.peers = append(read.peers, clusterPeerSpec{pods, peer.Nodes, texts(peer.Networks), len(peer.DomainNames) > 0})
	}
	return read
}

func adminPods(said policyv1alpha1.AdminNetworkPolicySubject) podsSpec {
	return podsSpec{said.Namespaces, (*policyv1alpha2.NamespacedPod)(said.Pods)}
}

func adminPorts(list *[]policyv1alpha1.AdminNetworkPolicyPort) (all []clusterPortSpec) {
	if list == nil {
		return nil
	}
	for _, said := range *list {
		var port clusterPortSpec
		switch {
		case said.PortNumber != nil:
			port = clusterPortSpec{protocol: cmp.Or(said.PortNumber.Protocol, corev1.ProtocolTCP), first: said.PortNumber.Port, last: said.PortNumber.Port}
		case said.PortRange != nil:
			port = clusterPortSpec{protocol: cmp.Or(said.PortRange.Protocol, corev1.ProtocolTCP), first: said.PortRange.Start, last: said.PortRange.End}
		case said.NamedPort != nil:
			port.name = *said.NamedPort
		}
		all = append(all, port)
	}
	return all
}
