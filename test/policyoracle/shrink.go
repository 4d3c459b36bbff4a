package policyoracle

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// shrink removes everything from a cluster that a failure does not need. The ends of the tuple stay.
func shrink(c *Cluster, fails func(c *Cluster) bool) *Cluster {
	for smaller := true; smaller; {
		smaller = false
		for _, candidate := range candidates(c) {
			if candidate != nil && fails(candidate) {
				c, smaller = candidate, true
				break
			}
		}
	}
	return c
}

// candidates returns copies of a cluster, each without one element.
func candidates(c *Cluster) (all []*Cluster) {
	for i := range c.Policies {
		lacking := *c
		lacking.Policies = slices.Delete(slices.Clone(c.Policies), i, i+1)
		all = append(all, &lacking)
	}
	for i := range c.ClusterPolicies {
		lacking := *c
		lacking.ClusterPolicies = slices.Delete(slices.Clone(c.ClusterPolicies), i, i+1)
		all = append(all, &lacking)
	}
	for i := range c.AdminPolicies {
		lacking := *c
		lacking.AdminPolicies = slices.Delete(slices.Clone(c.AdminPolicies), i, i+1)
		all = append(all, &lacking)
	}
	if len(c.BaselinePolicies) > 0 {
		lacking := *c
		lacking.BaselinePolicies = nil
		all = append(all, &lacking)
	}
	for i := range c.Policies {
		for _, edited := range editions(&c.Policies[i]) {
			lacking := *c
			lacking.Policies = slices.Clone(c.Policies)
			lacking.Policies[i] = *edited
			all = append(all, &lacking)
		}
	}
	for i := range c.ClusterPolicies {
		for _, edited := range clusterEditions(&c.ClusterPolicies[i]) {
			lacking := *c
			lacking.ClusterPolicies = slices.Clone(c.ClusterPolicies)
			lacking.ClusterPolicies[i] = *edited
			all = append(all, &lacking)
		}
	}
	for i, p := range c.AdminPolicies {
		for _, edited := range adminEditions(p.Spec) {
			lacking := *c
			lacking.AdminPolicies = slices.Clone(c.AdminPolicies)
			lacking.AdminPolicies[i].Spec = edited
			all = append(all, &lacking)
		}
	}
	return all
}

// adminEditions returns copies of a policy's spec, each without one of its rules.
func adminEditions(spec policyv1alpha1.AdminNetworkPolicySpec) (all []policyv1alpha1.AdminNetworkPolicySpec) {
	for i := range spec.Ingress {
		lacking := spec
		lacking.Ingress = slices.Delete(slices.Clone(spec.Ingress), i, i+1)
		all = append(all, lacking)
	}
	for i := range spec.Egress {
		lacking := spec
		lacking.Egress = slices.Delete(slices.Clone(spec.Egress), i, i+1)
		all = append(all, lacking)
	}
	return all
}

// editions returns copies of a policy, each without one element. A list of peers or ports keeps its last element,
// because an empty list means all.
func editions(p *networkingv1.NetworkPolicy) (all []*networkingv1.NetworkPolicy) {
	edit := func(change func(p *networkingv1.NetworkPolicy)) {
		copied := p.DeepCopy()
		change(copied)
		all = append(all, copied)
	}
	for i, rule := range p.Spec.Ingress {
		edit(func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress = slices.Delete(p.Spec.Ingress, i, i+1) })
		less(len(rule.From), func(j int) {
			edit(func(p *networkingv1.NetworkPolicy) {
				p.Spec.Ingress[i].From = slices.Delete(p.Spec.Ingress[i].From, j, j+1)
			})
		})
		less(len(rule.Ports), func(j int) {
			edit(func(p *networkingv1.NetworkPolicy) {
				p.Spec.Ingress[i].Ports = slices.Delete(p.Spec.Ingress[i].Ports, j, j+1)
			})
		})
	}
	for i, rule := range p.Spec.Egress {
		edit(func(p *networkingv1.NetworkPolicy) { p.Spec.Egress = slices.Delete(p.Spec.Egress, i, i+1) })
		less(len(rule.To), func(j int) {
			edit(func(p *networkingv1.NetworkPolicy) { p.Spec.Egress[i].To = slices.Delete(p.Spec.Egress[i].To, j, j+1) })
		})
		less(len(rule.Ports), func(j int) {
			edit(func(p *networkingv1.NetworkPolicy) {
				p.Spec.Egress[i].Ports = slices.Delete(p.Spec.Egress[i].Ports, j, j+1)
			})
		})
	}
	if len(p.Spec.PodSelector.MatchLabels)+len(p.Spec.PodSelector.MatchExpressions) > 0 {
		edit(func(p *networkingv1.NetworkPolicy) { p.Spec.PodSelector = metav1.LabelSelector{} })
	}
	return all
}

func clusterEditions(p *policyv1alpha2.ClusterNetworkPolicy) (all []*policyv1alpha2.ClusterNetworkPolicy) {
	edit := func(change func(p *policyv1alpha2.ClusterNetworkPolicy)) {
		copied := p.DeepCopy()
		change(copied)
		all = append(all, copied)
	}
	for i, rule := range p.Spec.Ingress {
		edit(func(p *policyv1alpha2.ClusterNetworkPolicy) { p.Spec.Ingress = slices.Delete(p.Spec.Ingress, i, i+1) })
		less(len(rule.From), func(j int) {
			edit(func(p *policyv1alpha2.ClusterNetworkPolicy) {
				p.Spec.Ingress[i].From = slices.Delete(p.Spec.Ingress[i].From, j, j+1)
			})
		})
	}
	for i, rule := range p.Spec.Egress {
		edit(func(p *policyv1alpha2.ClusterNetworkPolicy) { p.Spec.Egress = slices.Delete(p.Spec.Egress, i, i+1) })
		less(len(rule.To), func(j int) {
			edit(func(p *policyv1alpha2.ClusterNetworkPolicy) {
				p.Spec.Egress[i].To = slices.Delete(p.Spec.Egress[i].To, j, j+1)
			})
		})
	}
	return all
}

// less calls leaveOut for each of n elements.
func less(n int, leaveOut func(i int)) {
	for i := range n {
		if n > 1 {
			leaveOut(i)
		}
	}
}
