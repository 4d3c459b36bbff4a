package ui

import (
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
)

// policyRow is a policy.
type policyRow struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Order is the tier and the priority of a cluster-wide policy.
	Order string `json:"order,omitempty"`
	// Subject is the pods that the policy is about.
	Subject string `json:"subject"`
	// Ingress and Egress are the number of rules. They are nil if the policy does not apply to that direction.
	Ingress *int `json:"ingress"`
	Egress  *int `json:"egress"`
}

func policyRowOf(p *networkingv1.NetworkPolicy) policyRow {
	return namespaced("NetworkPolicy", p.ObjectMeta, p.Spec)
}

func multiPolicyRowOf(p *cniv1beta1.MultiNetworkPolicy) policyRow {
	row := namespaced("MultiNetworkPolicy", p.ObjectMeta, p.Spec)
	if on := p.Annotations[cniv1beta1.PolicyForAnnotation]; on != "" {
		row.Subject += " on " + on
	}
	return row
}

// namespaced returns the row of a policy of a namespace.
func namespaced(kind string, m metav1.ObjectMeta, spec networkingv1.NetworkPolicySpec) policyRow {
	row := policyRow{Kind: kind, Namespace: m.Namespace, Name: m.Name, Subject: podsText(&spec.PodSelector)}
	for _, t := range spec.PolicyTypes {
		switch t {
		case networkingv1.PolicyTypeIngress:
			row.Ingress = new(len(spec.Ingress))
		case networkingv1.PolicyTypeEgress:
			row.Egress = new(len(spec.Egress))
		}
	}
	return row
}

// podsText describes a selector of pods.
func podsText(selector *metav1.LabelSelector) string {
	if text := metav1.FormatLabelSelector(selector); text != "<none>" {
		return text
	}
	return "all pods"
}

func clusterPolicyRowOf(p *policyv1alpha2.ClusterNetworkPolicy) policyRow {
	order, subject := fmt.Sprintf("%s %d", p.Spec.Tier, p.Spec.Priority), p.Spec.Subject
	return clusterWide("ClusterNetworkPolicy", p.Name, order, subjectText(subject.Namespaces, subject.Pods != nil),
		len(p.Spec.Ingress), len(p.Spec.Egress))
}

func adminPolicyRowOf(p *policyv1alpha1.AdminNetworkPolicy) policyRow {
	order, subject := fmt.Sprintf("Admin %d", p.Spec.Priority), p.Spec.Subject
	return clusterWide("AdminNetworkPolicy", p.Name, order, subjectText(subject.Namespaces, subject.Pods != nil),
		len(p.Spec.Ingress), len(p.Spec.Egress))
}

func baselinePolicyRowOf(p *policyv1alpha1.BaselineAdminNetworkPolicy) policyRow {
	subject := p.Spec.Subject
	return clusterWide("BaselineAdminNetworkPolicy", p.Name, "Baseline", subjectText(subject.Namespaces, subject.Pods != nil),
		len(p.Spec.Ingress), len(p.Spec.Egress))
}

// clusterWide returns the row of a policy that applies to both directions.
func clusterWide(kind, name, order, subject string, ingress, egress int) policyRow {
	return policyRow{Kind: kind, Name: name, Order: order, Subject: subject, Ingress: &ingress, Egress: &egress}
}

// subjectText describes the subject of a cluster-wide policy.
func subjectText(namespaces *metav1.LabelSelector, pods bool) string {
	switch {
	case pods:
		return "pods by their labels"
	case namespaces == nil:
		return "nothing"
	}
	if text := metav1.FormatLabelSelector(namespaces); text != "<none>" {
		return "namespaces " + text
	}
	return "all namespaces"
}
