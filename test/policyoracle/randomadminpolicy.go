package policyoracle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
)

// adminPolicies returns policies of the previous API, no two with the same priority. A policy that shares its
// priority with a ClusterNetworkPolicy has few rules, so that the rules of both fit.
func (s source) adminPolicies(c *Cluster) (policies []policyv1alpha1.AdminNetworkPolicy) {
	few, many := []int32{0, 1, 2, 500, 999, 1000}, []int32{3, 600, 998}
	s.Shuffle(len(few), func(i, j int) { few[i], few[j] = few[j], few[i] })
	for n := range s.IntN(3) {
		p := policyv1alpha1.AdminNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("admin-%d", n+1)}}
		p.Spec.Priority, p.Spec.Subject = few[n], s.adminSubject(c)
		rules := s.IntN(4)
		if s.one(40) {
			p.Spec.Priority, rules = many[n], 100
		}
		for i := range rules {
			p.Spec.Ingress = append(p.Spec.Ingress,
				policyv1alpha1.AdminNetworkPolicyIngressRule{Action: s.adminAction(i), From: s.adminSources(c),
					Ports: s.adminPorts(true)})
			to, named := s.adminDestinations(c)
			p.Spec.Egress = append(p.Spec.Egress,
				policyv1alpha1.AdminNetworkPolicyEgressRule{Action: s.adminAction(i), To: to,
					Ports: s.adminPorts(named)})
		}
		policies = append(policies, p)
	}
	return policies
}

// baselinePolicies returns no policy or the only possible one.
func (s source) baselinePolicies(c *Cluster) []policyv1alpha1.BaselineAdminNetworkPolicy {
	if s.one(2) {
		return nil
	}
	p := policyv1alpha1.BaselineAdminNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: policyv1alpha1.BaselineAdminNetworkPolicySpec{Subject: s.adminSubject(c)}}
	rules := s.IntN(4)
	if s.one(40) {
		rules = 100
	}
	action := func() policyv1alpha1.BaselineAdminNetworkPolicyRuleAction {
		return oneOf(s, policyv1alpha1.BaselineAdminNetworkPolicyRuleActionAllow, policyv1alpha1.BaselineAdminNetworkPolicyRuleActionDeny)
	}
	for range rules {
		p.Spec.Ingress = append(p.Spec.Ingress, policyv1alpha1.BaselineAdminNetworkPolicyIngressRule{Action: action(),
			From: s.adminSources(c), Ports: s.adminPorts(true)})
		to, named := s.adminDestinations(c)
		rule := policyv1alpha1.BaselineAdminNetworkPolicyEgressRule{Action: action(), Ports: s.adminPorts(named)}
		for _, peer := range to {
			rule.To = append(rule.To, policyv1alpha1.BaselineAdminNetworkPolicyEgressPeer{Namespaces: peer.Namespaces,
				Pods: peer.Pods, Nodes: peer.Nodes, Networks: peer.Networks})
		}
		p.Spec.Egress = append(p.Spec.Egress, rule)
	}
	return []policyv1alpha1.BaselineAdminNetworkPolicy{p}
}

// adminAction returns the nth rule's action. With many rules, four in a row have the same action, because the number
// of ACL priorities is limited.
func (s source) adminAction(n int) policyv1alpha1.AdminNetworkPolicyRuleAction {
	actions := []policyv1alpha1.AdminNetworkPolicyRuleAction{policyv1alpha1.AdminNetworkPolicyRuleActionAllow,
		policyv1alpha1.AdminNetworkPolicyRuleActionDeny, policyv1alpha1.AdminNetworkPolicyRuleActionPass}
	if n > 3 {
		return actions[n/4%len(actions)]
	}
	return oneOf(s, actions...)
}

func (s source) adminSubject(c *Cluster) policyv1alpha1.AdminNetworkPolicySubject {
	namespaces, pods := s.pods(c)
	return policyv1alpha1.AdminNetworkPolicySubject{Namespaces: namespaces, Pods: (*policyv1alpha1.NamespacedPod)(pods)}
}

func (s source) adminSources(c *Cluster) (from []policyv1alpha1.AdminNetworkPolicyIngressPeer) {
	for range 1 + s.IntN(2) {
		from = append(from, policyv1alpha1.AdminNetworkPolicyIngressPeer(s.adminSubject(c)))
	}
	return from
}

// adminDestinations returns peers; named is false if the CRD allows no named ports with them.
func (s source) adminDestinations(c *Cluster) (to []policyv1alpha1.AdminNetworkPolicyEgressPeer, named bool) {
	named = true
	for _, said := range s.egressRule(c).To {
		peer := policyv1alpha1.AdminNetworkPolicyEgressPeer{Namespaces: said.Namespaces,
			Pods: (*policyv1alpha1.NamespacedPod)(said.Pods), Nodes: said.Nodes}
		for _, network := range said.Networks {
			peer.Networks = append(peer.Networks, policyv1alpha1.CIDR(network))
		}
		to, named = append(to, peer), named && peer.Nodes == nil && len(peer.Networks) == 0
	}
	return to, named
}

func (s source) adminPorts(named bool) *[]policyv1alpha1.AdminNetworkPolicyPort {
	var list []policyv1alpha1.AdminNetworkPolicyPort
	for range oneOf(s, 0, 0, 1, 2) {
		number, protocol := oneOf(s, portNumbers...), oneOf(s, append(protocols, corev1.Protocol(""))...)
		switch kind := s.IntN(3); {
		case kind == 0:
			list = append(list, policyv1alpha1.AdminNetworkPolicyPort{PortNumber: &policyv1alpha1.Port{Protocol: protocol, Port: number}})
		case kind == 1:
			list = append(list, policyv1alpha1.AdminNetworkPolicyPort{PortRange: &policyv1alpha1.PortRange{
				Protocol: protocol, Start: number, End: number + 1 + int32(s.IntN(8000))}})
		case named:
			name := oneOf(s, nameList...)
			list = append(list, policyv1alpha1.AdminNetworkPolicyPort{NamedPort: &name})
		}
	}
	if len(list) == 0 {
		return nil
	}
	return &list
}
