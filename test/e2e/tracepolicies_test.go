//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/tools"
)

// policies are the random objects that decide about packets.
type policies struct {
	network  []*networkingv1.NetworkPolicy
	cluster  *policyv1alpha2.ClusterNetworkPolicy
	firewall *networkv1alpha1.EgressFirewall
	egress   *networkv1alpha1.EgressIP
}

var colours = []string{"red", "green", "blue"}

// installClusterPolicies installs the CRD of ClusterNetworkPolicy until the test's end.
func installClusterPolicies(t *testing.T) {
	t.Helper()
	module, err := tools.ModuleFolder(t.Context(), "policyapi", "go.mod", "sigs.k8s.io/network-policy-api")
	must(t, err)
	crd := filepath.Join(module, "config", "crd", "experimental", "policy.networking.k8s.io_clusternetworkpolicies.yaml")
	must(t, policyv1alpha2.AddToScheme(bed.api.Scheme()))
	_, err = bed.Kubectl(t.Context(), "apply", "--server-side", "-f", crd)
	must(t, err)
	t.Cleanup(func() {
		_, err := bed.Kubectl(cleanup(), "delete", "-f", crd)
		must(t, err)
	})
	_, err = bed.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "-f", crd)
	must(t, err)
}

// changePolicies replaces the policies by random policies.
func (a *accuracy) changePolicies(t *testing.T) {
	t.Helper()
	for _, p := range a.objects.network {
		bed.remove(t, p)
	}
	if a.objects.cluster != nil {
		bed.remove(t, a.objects.cluster)
	}
	if a.objects.firewall != nil {
		bed.remove(t, a.objects.firewall)
	}
	if a.objects.egress != nil {
		bed.remove(t, a.objects.egress)
	}
	a.objects = policies{}
	for i := range a.random.IntN(3) {
		p := a.policy(fmt.Sprintf("random-%d", i))
		a.objects.network = append(a.objects.network, p)
		bed.create(t, p)
	}
	if a.random.IntN(3) == 0 {
		a.objects.cluster = clusterPolicy(a.random)
		bed.create(t, a.objects.cluster)
	}
	if a.random.IntN(3) == 0 {
		a.objects.firewall = &networkv1alpha1.EgressFirewall{
			ObjectMeta: metav1.ObjectMeta{Namespace: traced, Name: networkv1alpha1.EgressFirewallName},
			Spec: networkv1alpha1.EgressFirewallSpec{Egress: []networkv1alpha1.EgressFirewallRule{
				deny(cidr(pick(a.random, both(lab.Outside())...)))}}}
		bed.create(t, a.objects.firewall)
	}
	if a.random.IntN(3) == 0 {
		a.objects.egress = egressIP(t, "random", "")
		a.objects.egress.Spec.NamespaceSelector.MatchLabels = map[string]string{corev1.LabelMetadataName: traced}
		a.objects.egress.Spec.PodSelector = app(pick(a.random, colours...))
		bed.create(t, a.objects.egress)
		bed.carried(t, a.objects.egress, "n2")
	}
}

// policy returns a random policy: the isolated pods, the directions, and the allowed peers.
func (a *accuracy) policy(name string) *networkingv1.NetworkPolicy {
	p := policy(name, pick(a.random, metav1.LabelSelector{}, app(pick(a.random, colours...)), app(pick(a.random, colours...))))
	p.Namespace = traced
	peers := []networkingv1.NetworkPolicyPeer{{PodSelector: ptr(app(pick(a.random, colours...)))}}
	if a.random.IntN(3) == 0 {
		peers = append(peers, block(pick(a.random, both(lab.Outside())...)))
	}
	protocol, port := pick(a.random, corev1.ProtocolTCP, corev1.ProtocolUDP), intstr.FromInt32(whoPort)
	ports := []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: &port}}
	if a.random.IntN(2) == 0 {
		ports = nil
	}
	if a.random.IntN(3) > 0 {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: peers, Ports: ports}}
	}
	if len(p.Spec.PolicyTypes) == 0 || a.random.IntN(3) == 0 {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: peers, Ports: ports}}
	}
	return p
}

// clusterPolicy returns a random policy of an administrator.
func clusterPolicy(r *rand.Rand) *policyv1alpha2.ClusterNetworkPolicy {
	pods := func() *policyv1alpha2.NamespacedPod {
		return &policyv1alpha2.NamespacedPod{
			NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: traced}},
			PodSelector:       app(pick(r, colours...))}
	}
	p := &policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "random"}}
	p.Spec.Tier, p.Spec.Subject.Pods = pick(r, policyv1alpha2.AdminTier, policyv1alpha2.BaselineTier), pods()
	action := pick(r, policyv1alpha2.ClusterNetworkPolicyRuleActionAccept, policyv1alpha2.ClusterNetworkPolicyRuleActionDeny)
	if r.IntN(2) == 0 {
		p.Spec.Ingress = []policyv1alpha2.ClusterNetworkPolicyIngressRule{{Action: action,
			From: []policyv1alpha2.ClusterNetworkPolicyIngressPeer{{Pods: pods()}}}}
		return p
	}
	to := []policyv1alpha2.ClusterNetworkPolicyEgressPeer{{Pods: pods()}}
	if r.IntN(2) == 0 {
		outside := pick(r, both(lab.Outside())...)
		to = []policyv1alpha2.ClusterNetworkPolicyEgressPeer{{Networks: []policyv1alpha2.CIDR{
			policyv1alpha2.CIDR(netip.PrefixFrom(outside, outside.BitLen()).String())}}}
	}
	p.Spec.Egress = []policyv1alpha2.ClusterNetworkPolicyEgressRule{{Action: action, To: to}}
	return p
}

// isolating returns the names of the policies that isolate the pods with a label in a direction, sorted.
func (p policies) isolating(label string, direction networkingv1.PolicyType) (names []string) {
	for _, one := range p.network {
		selected := one.Spec.PodSelector.MatchLabels["app"]
		if (selected == "" || selected == label) && slices.Contains(one.Spec.PolicyTypes, direction) {
			names = append(names, one.Name)
		}
	}
	slices.Sort(names)
	return names
}

// subject returns the label of the pods of a ClusterNetworkPolicy, or a text that no pod has.
func (p policies) subject(name string) string {
	if p.cluster == nil || p.cluster.Name != name {
		return "no such policy"
	}
	return p.cluster.Spec.Subject.Pods.PodSelector.MatchLabels["app"]
}

func (p policies) describe() string {
	text, err := json.Marshal(map[string]any{"network": p.network, "cluster": p.cluster, "firewall": p.firewall, "egress": p.egress})
	if err != nil {
		return err.Error()
	}
	return string(text)
}
