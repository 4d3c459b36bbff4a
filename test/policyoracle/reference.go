package policyoracle

import (
	"slices"
	"strings"

	"github.com/mattfenwick/cyclonus/pkg/matcher"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// absent is the value, for cyclonus, of labels that an object does not have.
const absent = "(absent)"

// reference decides with cyclonus' matcher.
type reference struct {
	cluster *Cluster
	policy  *matcher.Policy
	keys    []string // keys of labels in selectors
}

func newReference(c *Cluster) *reference {
	r := &reference{cluster: c, keys: slices.Concat(labelKeys, []string{corev1.LabelMetadataName})}
	var policies []*networkingv1.NetworkPolicy
	for i := range c.Policies {
		policies = append(policies, translate(&c.Policies[i]))
	}
	r.policy = matcher.BuildNetworkPolicies(false, policies)
	return r
}

// Allowed decides a connection.
func (r *reference) Allowed(t Tuple) bool { return r.direction(t, false) && r.direction(t, true) }

func (r *reference) direction(t Tuple, ingress bool) bool {
	subject, peer := t.From, t.To
	if ingress {
		subject, peer = t.To, t.From
	}
	if subject.Pod < 0 || r.cluster.resident(subject, peer) {
		return true
	}
	switch r.cluster.tier(policyv1alpha2.AdminTier, t, ingress) {
	case policyv1alpha2.ClusterNetworkPolicyRuleActionAccept:
		return true
	case policyv1alpha2.ClusterNetworkPolicyRuleActionDeny:
		return false
	}
	if r.isolated(subject, ingress) {
		return r.named(t, ingress)
	}
	return r.cluster.tier(policyv1alpha2.BaselineTier, t, ingress) != policyv1alpha2.ClusterNetworkPolicyRuleActionDeny
}

// isolated reports whether a policy selects a pod.
func (r *reference) isolated(e End, ingress bool) bool {
	pod := &r.cluster.Pods[e.Pod]
	return len(r.policy.TargetsApplyingToPod(ingress, pod.Namespace, r.complete(pod.Labels))) > 0
}

// named decides for each name that the destination gives to the port.
func (r *reference) named(t Tuple, ingress bool) bool {
	decided := []string{""}
	if t.To.Pod >= 0 {
		decided = append(decided, portNames(&r.cluster.Pods[t.To.Pod], t.Protocol, t.Port)...)
	}
	return slices.ContainsFunc(decided, func(name string) bool {
		return r.policy.IsIngressOrEgressAllowed(&matcher.Traffic{Source: r.peer(t.From), Destination: r.peer(t.To),
			ResolvedPort: int(t.Port), ResolvedPortName: name, Protocol: t.Protocol}, ingress).IsAllowed()
	})
}

func (r *reference) peer(e End) *matcher.TrafficPeer {
	peer := &matcher.TrafficPeer{IP: e.Address.String()}
	if e.Pod >= 0 {
		pod := &r.cluster.Pods[e.Pod]
		peer.Internal = &matcher.InternalPeer{Namespace: pod.Namespace, PodLabels: r.complete(pod.Labels),
			NamespaceLabels: r.complete(r.cluster.namespace(pod.Namespace).Labels)}
	}
	return peer
}

// complete adds all missing labels to an object, for NotIn.
func (r *reference) complete(labels map[string]string) map[string]string {
	all := map[string]string{}
	for _, key := range r.keys {
		all[key] = absent
	}
	for key, value := range labels {
		all[key] = value
	}
	return all
}

// translate rewrites a policy so that cyclonus interprets it as the API does.
func translate(policy *networkingv1.NetworkPolicy) *networkingv1.NetworkPolicy {
	p := policy.DeepCopy()
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	selectors := []*metav1.LabelSelector{&p.Spec.PodSelector}
	of := func(peers []networkingv1.NetworkPolicyPeer) {
		for i := range peers {
			selectors = append(selectors, peers[i].PodSelector, peers[i].NamespaceSelector)
		}
	}
	for _, rule := range p.Spec.Ingress {
		of(rule.From)
	}
	for _, rule := range p.Spec.Egress {
		of(rule.To)
	}
	for _, s := range selectors {
		if s != nil {
			*s = explicit(*s)
		}
	}
	return p
}

// explicit rewrites a selector with only In and NotIn, for objects that have all labels.
func explicit(s metav1.LabelSelector) (e metav1.LabelSelector) {
	for key, value := range s.MatchLabels {
		e.MatchExpressions = append(e.MatchExpressions, metav1.LabelSelectorRequirement{Key: key,
			Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
	}
	for _, r := range s.MatchExpressions {
		switch r.Operator {
		case metav1.LabelSelectorOpExists:
			r = metav1.LabelSelectorRequirement{Key: r.Key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{absent}}
		case metav1.LabelSelectorOpDoesNotExist:
			r = metav1.LabelSelectorRequirement{Key: r.Key, Operator: metav1.LabelSelectorOpIn, Values: []string{absent}}
		}
		e.MatchExpressions = append(e.MatchExpressions, r)
	}
	slices.SortFunc(e.MatchExpressions, func(a, b metav1.LabelSelectorRequirement) int { return strings.Compare(a.String(), b.String()) })
	return e
}
