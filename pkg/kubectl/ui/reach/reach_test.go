package reach

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weft-network/weft/pkg/facts"
)

func pod(namespace, name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}}}
	p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}
	return p
}

func app(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

// cluster has a policy that allows the client of web, a policy that isolates all pods for egress, and a cluster-wide
// policy that denies the pods of namespace batch.
func cluster() Input {
	allow := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}}
	allow.Spec.PodSelector = *app("web")
	allow.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	allow.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{
		{From: []networkingv1.NetworkPolicyPeer{{PodSelector: app("client")}, {IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/24"}}},
			Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString("http"))}, {Port: new(intstr.FromInt32(1)),
				EndPort: new(int32(9))}}},
		{},
	}
	isolate := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "quiet"}}
	isolate.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	foreign := allow.DeepCopy()
	foreign.Namespace = "batch"
	batch := &metav1.LabelSelector{MatchLabels: map[string]string{"name": "batch"}}
	deny := &policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "no-batch"}}
	deny.Spec.Tier, deny.Spec.Priority = policyv1alpha2.AdminTier, 5
	deny.Spec.Subject.Namespaces = &metav1.LabelSelector{}
	deny.Spec.Ingress = []policyv1alpha2.ClusterNetworkPolicyIngressRule{{Action: policyv1alpha2.ClusterNetworkPolicyRuleActionDeny,
		From: []policyv1alpha2.ClusterNetworkPolicyIngressPeer{{Namespaces: batch}}}}
	ended := pod("batch", "ended")
	ended.Status.Phase = corev1.PodSucceeded
	return Input{Pods: []*corev1.Pod{pod("demo", "web"), pod("demo", "client"), pod("batch", "client"), ended},
		Namespaces: map[string]labels.Set{"demo": {"name": "demo"}, "batch": {"name": "batch"}},
		Policies:   []*networkingv1.NetworkPolicy{allow, isolate, foreign}, Cluster: []metav1.Object{deny}}
}

func TestOf(t *testing.T) {
	in := cluster()
	want := Answer{Pod: "demo/web", Invalid: []string{},
		Ingress: Direction{IsolatedBy: []string{"NetworkPolicy demo/web"}, Rules: []Rule{
			{Tier: tierAdmin, Policy: "ClusterNetworkPolicy no-batch", Rule: "ingress[0]", Action: facts.Deny, Ports: "all ports",
				Peers: []string{"all pods in namespaces with name=batch"}, Pods: []string{"batch/client"}, Count: 1},
			{Tier: tierPolicy, Policy: "NetworkPolicy demo/web", Rule: "ingress[0]", Action: facts.Accept, Ports: "TCP 1-9, TCP http (8080)",
				Peers: []string{"pods with app=client in namespace demo", "192.0.2.0/24"}, Pods: []string{"demo/client"}, Count: 1},
			{Tier: tierPolicy, Policy: "NetworkPolicy demo/web", Rule: "ingress[1]", Action: facts.Accept, Ports: "all ports",
				Peers: []string{"everyone"}, Pods: []string{}},
		}},
		Egress: Direction{IsolatedBy: []string{"NetworkPolicy demo/quiet"}, Rules: []Rule{}},
	}
	if diff := cmp.Diff(want, Of(in, in.Pods[0])); diff != "" {
		t.Error(diff)
	}
}

// A pod that no policy selects is not isolated. A pod in its node's network has no policies.
func TestOfPodsWithoutPolicies(t *testing.T) {
	in := cluster()
	in.Cluster, in.Policies = nil, in.Policies[:1]
	if a := Of(in, in.Pods[1]); len(a.Ingress.IsolatedBy)+len(a.Ingress.Rules)+len(a.Egress.IsolatedBy) != 0 {
		t.Errorf("%+v", a)
	}
	onHost := pod("demo", "web")
	onHost.Spec.HostNetwork = true
	if a := Of(in, onHost); !a.OnHost || len(a.Ingress.Rules) != 0 {
		t.Errorf("%+v", a)
	}
}

// An unreadable policy is named, and isolates as the operator makes it isolate.
func TestOfAnInvalidPolicy(t *testing.T) {
	in := cluster()
	in.Policies[0].Spec.Ingress[0].From[1].IPBlock.CIDR = "nonsense"
	a := Of(in, in.Pods[0])
	if len(a.Invalid) != 1 || len(a.Ingress.IsolatedBy) != 1 {
		t.Errorf("%+v", a)
	}
}
