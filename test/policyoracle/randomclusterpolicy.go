package policyoracle

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// clusterPolicies returns policies of both tiers. No two of a tier have the same priority, because the API does not
// define their order.
func (s source) clusterPolicies(c *Cluster) (policies []policyv1alpha2.ClusterNetworkPolicy) {
	for _, tier := range []policyv1alpha2.Tier{policyv1alpha2.AdminTier, policyv1alpha2.BaselineTier} {
		priorities := []int32{0, 1, 2, 500, 999, 1000}
		s.Shuffle(len(priorities), func(i, j int) { priorities[i], priorities[j] = priorities[j], priorities[i] })
		for n := range s.IntN(4) {
			p := policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", tier, n+1)}}
			p.Spec.Tier, p.Spec.Priority = tier, priorities[n]
			p.Spec.Subject.Namespaces, p.Spec.Subject.Pods = s.pods(c)
			for range s.rules() {
				rule := policyv1alpha2.ClusterNetworkPolicyIngressRule{Action: s.action(), Protocols: s.protocolList(true)}
				for range 1 + s.IntN(2) {
					var from policyv1alpha2.ClusterNetworkPolicyIngressPeer
					from.Namespaces, from.Pods = s.pods(c)
					rule.From = append(rule.From, from)
				}
				p.Spec.Ingress = append(p.Spec.Ingress, rule)
			}
			for range s.rules() {
				p.Spec.Egress = append(p.Spec.Egress, s.egressRule(c))
			}
			policies = append(policies, p)
		}
	}
	return policies
}

// rules returns the number of rules in a direction: usually few, sometimes the maximum.
func (s source) rules() int {
	if s.one(40) {
		return 25
	}
	return s.IntN(4)
}

func (s source) action() policyv1alpha2.ClusterNetworkPolicyRuleAction {
	return oneOf(s, policyv1alpha2.ClusterNetworkPolicyRuleActionAccept,
		policyv1alpha2.ClusterNetworkPolicyRuleActionDeny, policyv1alpha2.ClusterNetworkPolicyRuleActionPass)
}

func (s source) pods(c *Cluster) (*metav1.LabelSelector, *policyv1alpha2.NamespacedPod) {
	namespaces := s.namespaceSelector(c)
	if s.one(2) {
		return &namespaces, nil
	}
	return nil, &policyv1alpha2.NamespacedPod{NamespaceSelector: namespaces, PodSelector: s.selector()}
}

func (s source) egressRule(c *Cluster) policyv1alpha2.ClusterNetworkPolicyEgressRule {
	rule := policyv1alpha2.ClusterNetworkPolicyEgressRule{Action: s.action()}
	named := true // the CRD forbids named ports with networks and nodes
	for range 1 + s.IntN(2) {
		var to policyv1alpha2.ClusterNetworkPolicyEgressPeer
		switch s.IntN(4) {
		case 0:
			to.Networks, named = []policyv1alpha2.CIDR{policyv1alpha2.CIDR(s.block(c).CIDR)}, false
		case 1:
			selector := s.selector()
			to.Nodes, named = &selector, false
		default:
			to.Namespaces, to.Pods = s.pods(c)
		}
		rule.To = append(rule.To, to)
	}
	rule.Protocols = s.protocolList(named)
	return rule
}

func (s source) protocolList(named bool) (list []policyv1alpha2.ClusterNetworkPolicyProtocol) {
	for range oneOf(s, 0, 0, 1, 2) {
		var p policyv1alpha2.ClusterNetworkPolicyProtocol
		switch port := s.port(); s.IntN(4) {
		case 0:
			p.TCP = &policyv1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: port}
		case 1:
			p.UDP = &policyv1alpha2.ClusterNetworkPolicyProtocolUDP{DestinationPort: port}
		case 2:
			p.SCTP = &policyv1alpha2.ClusterNetworkPolicyProtocolSCTP{DestinationPort: port}
		default:
			if !named {
				continue
			}
			p.DestinationNamedPort = oneOf(s, nameList...)
		}
		list = append(list, p)
	}
	return list
}

func (s source) port() *policyv1alpha2.Port {
	number := oneOf(s, portNumbers...)
	switch s.IntN(4) {
	case 0:
		return nil
	case 1:
		return &policyv1alpha2.Port{Range: &policyv1alpha2.PortRange{Start: number, End: number + 1 + int32(s.IntN(8000))}}
	}
	return &policyv1alpha2.Port{Number: number}
}
