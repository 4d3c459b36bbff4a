package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
)

// everywhere selects all pods.
var everywhere = policyv1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}

// clusterPolicy creates a policy, which the test's cleanup removes.
func (w *world) clusterPolicy(name string, spec policyv1alpha2.ClusterNetworkPolicySpec) *policyv1alpha2.ClusterNetworkPolicy {
	w.Helper()
	policy := &policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	w.must(api.Create(w.Context(), policy))
	w.Cleanup(func() { w.must(client.IgnoreNotFound(api.Delete(context.Background(), policy))) })
	return policy
}

// clusterPolicies lists the policies of all kinds that the API server has.
func clusterPolicies(ctx context.Context) (all []metav1.Object, err error) {
	for _, list := range []client.ObjectList{&policyv1alpha2.ClusterNetworkPolicyList{},
		&policyv1alpha1.AdminNetworkPolicyList{}, &policyv1alpha1.BaselineAdminNetworkPolicyList{}} {
		if err := api.List(ctx, list); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error { all = append(all, o.(metav1.Object)); return nil }); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func conditionsOf(policy client.Object) []metav1.Condition {
	switch policy := policy.(type) {
	case *policyv1alpha2.ClusterNetworkPolicy:
		return policy.Status.Conditions
	case *policyv1alpha1.AdminNetworkPolicy:
		return policy.Status.Conditions
	case *policyv1alpha1.BaselineAdminNetworkPolicy:
		return policy.Status.Conditions
	}
	return nil
}

// inForce waits for the condition of the policy's present generation.
func (w *world) inForce(policy client.Object, status metav1.ConditionStatus, words ...string) {
	w.Helper()
	w.until(func() error {
		if err := api.Get(w.Context(), keyOf(policy), policy); err != nil {
			return err
		}
		c := meta.FindStatusCondition(conditionsOf(policy), networkv1alpha1.ConditionReady)
		if c == nil || c.Status != status || c.ObservedGeneration != policy.GetGeneration() ||
			slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(c.Message, word) }) {
			return fmt.Errorf("condition %+v, want %s of generation %d and %q", c, status, policy.GetGeneration(), words)
		}
		return nil
	})
}

// policyRules waits until a policy's unit has exactly these ACLs: tier, direction, action and what follows the
// subject's group.
func (w *world) policyRules(policy string, want ...string) {
	w.Helper()
	slices.Sort(want)
	w.until(func() error {
		var got []string
		for _, row := range w.selectRows()[nbdb.ACLTable] {
			if slices.Contains(row["external_ids"], "weft.dev/unit="+policy) {
				_, match, _ := strings.Cut(strings.Join(row["match"], ""), " && ")
				got = append(got, fmt.Sprint(strings.Join(slices.Concat(row["tier"], row["direction"], row["action"]), " "), ": ", match))
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("the ACLs of %s are %q, want %q", policy, got, want)
		}
		return nil
	})
}

func TestClusterNetworkPolicies(t *testing.T) {
	w := newWorld(t)
	w.network(dualStack()...)

	w.start()
	w.join("n1")
	pods := w.create("n1", "a", "b")
	policy := w.clusterPolicy("guard", policyv1alpha2.ClusterNetworkPolicySpec{Tier: policyv1alpha2.AdminTier,
		Priority: 10, Subject: everywhere,
		Egress: []policyv1alpha2.ClusterNetworkPolicyEgressRule{
			{Action: policyv1alpha2.ClusterNetworkPolicyRuleActionDeny,
				To: []policyv1alpha2.ClusterNetworkPolicyEgressPeer{
					{Networks: []policyv1alpha2.CIDR{"192.0.2.0/24"}}}}}})
	w.inForce(policy, metav1.ConditionTrue, "0 of ingress, 1 of egress")
	w.policyRules("clusternetworkpolicy/guard", "1 from-lport drop: ip4.dst == 192.0.2.0/24", "3 to-lport allow-related: ip")
	w.until(func() error { // its subject is both pods
		for _, row := range w.selectRows()[nbdb.PortGroupTable] {
			if strings.HasPrefix(strings.Join(row["name"], ""), "pods_") && len(row["ports"]) == len(pods) {
				return nil
			}
		}
		return errors.New("no group has both pods")
	})

	// A rule for nodes follows their addresses.
	node := w.node("n1")
	w.edit(policy, func() {
		policy.Spec.Tier, policy.Spec.Egress[0].Action = policyv1alpha2.BaselineTier, policyv1alpha2.ClusterNetworkPolicyRuleActionPass
		policy.Spec.Egress[0].To = []policyv1alpha2.ClusterNetworkPolicyEgressPeer{{Nodes: &metav1.LabelSelector{}}}
	})
	w.inForce(policy, metav1.ConditionTrue)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.18.0.77"}}
	w.must(api.Status().Update(w.Context(), node))
	w.policyRules("clusternetworkpolicy/guard", "3 from-lport allow-related: ip4.dst == 172.18.0.77")

	// A rule for names accepts their addresses.
	w.edit(policy, func() {
		policy.Spec.Egress[0].Action = policyv1alpha2.ClusterNetworkPolicyRuleActionAccept
		policy.Spec.Egress[0].To = []policyv1alpha2.ClusterNetworkPolicyEgressPeer{
			{DomainNames: []policyv1alpha2.DomainName{"WWW.example.org."}}}
	})
	w.inForce(policy, metav1.ConditionTrue)
	w.policyRules("clusternetworkpolicy/guard",
		"3 from-lport allow-related: (ip4.dst == $dns_www.example.org_IPv4 || ip6.dst == $dns_www.example.org_IPv6)")

	// A wildcard's addresses are what nodes report, which need the cluster's name servers for it.
	w.edit(policy, func() { policy.Spec.Egress[0].To[0].DomainNames[0] = "*.Example.org" })
	w.inForce(policy, metav1.ConditionTrue, "*.example.org: the cluster's name servers are unknown")
	w.policyRules("clusternetworkpolicy/guard",
		"3 from-lport allow-related: (ip4.dst == $dns_.example.org_IPv4 || ip6.dst == $dns_.example.org_IPv6)")
	w.must(client.IgnoreAlreadyExists(api.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})))
	dns := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 53, Protocol: corev1.ProtocolUDP}}}}
	w.must(api.Create(w.Context(), dns))
	w.until(func() error {
		want := &networkv1alpha1.NodeWildcards{Names: []string{"*.example.org"},
			Nameservers: []networkv1alpha1.IP{networkv1alpha1.IP(dns.Spec.ClusterIP)}}
		if have := w.nodeNetwork("n1").Spec.Wildcards; !equality.Semantic.DeepEqual(have, want) {
			return fmt.Errorf("node n1 is to observe %+v, want %+v", have, want)
		}
		return nil
	})
	w.until(func() error { // the operator writes conditions of the same status
		nn := w.nodeNetwork("n1")
		nn.Status.Wildcards = []networkv1alpha1.ObservedWildcard{{Name: "*.example.org",
			Addresses: []networkv1alpha1.IP{"192.0.2.7", "2001:db8::7"}}}
		return api.Status().Update(w.Context(), nn)
	})
	w.set("dns_.example.org_IPv4", "192.0.2.7")
	w.set("dns_.example.org_IPv6", "2001:db8::7")
	w.inForce(policy, metav1.ConditionTrue, "0 of ingress, 1 of egress")
	w.delete(dns)

	w.delete(policy)
	w.until(func() error {
		if have := w.nodeNetwork("n1").Spec.Wildcards; have != nil {
			return fmt.Errorf("without the policy node n1 is to observe %+v", have)
		}
		for _, row := range w.selectRows()[nbdb.PortGroupTable] {
			if name := strings.Join(row["name"], ""); strings.HasPrefix(name, "pods_") {
				return fmt.Errorf("group %s remains", name)
			}
		}
		return nil
	})
}
