package policyoracle

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// tier returns the action of a tier's ClusterNetworkPolicies for a connection; empty if none matches. It implements
// the API's documentation: of the policies that select the pod, in order of priority, the first matching rule
// decides.
func (c *Cluster) tier(tier policyv1alpha2.Tier, t Tuple, ingress bool) policyv1alpha2.ClusterNetworkPolicyRuleAction {
	subject := t.From
	if ingress {
		subject = t.To
	}
	for _, p := range c.ranked() {
		if p.Spec.Tier != tier || !c.isOneOf(subject, p.Spec.Subject.Namespaces, p.Spec.Subject.Pods) {
			continue
		}
		for _, rule := range p.Spec.Ingress {
			if ingress && slices.ContainsFunc(rule.From, func(from policyv1alpha2.ClusterNetworkPolicyIngressPeer) bool {
				return c.isOneOf(t.From, from.Namespaces, from.Pods)
			}) && c.speaks(t, rule.Protocols) {
				return rule.Action
			}
		}
		for _, rule := range p.Spec.Egress {
			if !ingress && slices.ContainsFunc(rule.To, func(to policyv1alpha2.ClusterNetworkPolicyEgressPeer) bool {
				return c.isTo(t.To, to)
			}) && c.speaks(t, rule.Protocols) {
				return rule.Action
			}
		}
	}
	return ""
}

// ranked returns all policies in the order in which they decide. At the same priority ClusterNetworkPolicies come
// first. The BaselineAdminNetworkPolicy is last.
func (c *Cluster) ranked() []policyv1alpha2.ClusterNetworkPolicy {
	all := slices.Clone(c.ClusterPolicies)
	for i := range c.AdminPolicies {
		all = append(all, successor(&c.AdminPolicies[i]))
	}
	slices.SortStableFunc(all, func(a, b policyv1alpha2.ClusterNetworkPolicy) int {
		return cmp.Compare(a.Spec.Priority, b.Spec.Priority)
	})
	for i := range c.BaselinePolicies {
		all = append(all, successorOfBaseline(&c.BaselinePolicies[i]))
	}
	return all
}

// isOneOf reports whether an end is one of the selected pods.
func (c *Cluster) isOneOf(e End, namespaces *metav1.LabelSelector, pods *policyv1alpha2.NamespacedPod) bool {
	if e.Pod < 0 {
		return false
	}
	pod := &c.Pods[e.Pod]
	if pods != nil {
		return selects(&pods.NamespaceSelector, c.namespace(pod.Namespace).Labels) && selects(&pods.PodSelector, pod.Labels)
	}
	return namespaces != nil && selects(namespaces, c.namespace(pod.Namespace).Labels)
}

func (c *Cluster) isTo(e End, to policyv1alpha2.ClusterNetworkPolicyEgressPeer) bool {
	if to.Nodes != nil {
		return slices.ContainsFunc(c.Nodes, func(n Node) bool {
			return selects(to.Nodes, n.Labels) && slices.Contains(n.Addresses, e.Address)
		})
	}
	return c.isOneOf(e, to.Namespaces, to.Pods) || slices.ContainsFunc(to.Networks, func(network policyv1alpha2.CIDR) bool {
		return netip.MustParsePrefix(string(network)).Contains(e.Address)
	})
}

// speaks reports whether a connection uses one of the protocols; an empty list means all.
func (c *Cluster) speaks(t Tuple, protocols []policyv1alpha2.ClusterNetworkPolicyProtocol) bool {
	return len(protocols) == 0 || slices.ContainsFunc(protocols, func(p policyv1alpha2.ClusterNetworkPolicyProtocol) bool {
		switch {
		case p.TCP != nil:
			return t.Protocol == corev1.ProtocolTCP && isPort(t.Port, p.TCP.DestinationPort)
		case p.UDP != nil:
			return t.Protocol == corev1.ProtocolUDP && isPort(t.Port, p.UDP.DestinationPort)
		case p.SCTP != nil:
			return t.Protocol == corev1.ProtocolSCTP && isPort(t.Port, p.SCTP.DestinationPort)
		}
		return t.To.Pod >= 0 && slices.Contains(portNames(&c.Pods[t.To.Pod], t.Protocol, t.Port), p.DestinationNamedPort)
	})
}

func isPort(number uint16, port *policyv1alpha2.Port) bool {
	n := int32(number)
	return port == nil || n == port.Number || port.Range != nil && port.Range.Start <= n && n <= port.Range.End
}

func selects(s *metav1.LabelSelector, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(of))
}
