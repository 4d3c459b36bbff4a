package operator

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/process/admin"
	"github.com/weft-network/weft/test/lab/tools"
)

// adminKinds are the CRDs of v1alpha1, which the API server does not have at its start.
func (w *world) adminKinds() envtest.CRDInstallOptions {
	w.Helper()
	module, err := tools.ModuleFolder(w.Context(), "policyapi", "v1alpha1.mod", "sigs.k8s.io/network-policy-api")
	w.must(err)
	return envtest.CRDInstallOptions{Paths: []string{filepath.Join(module, "config", "crd", "experimental",
		"policy.networking.k8s.io_adminnetworkpolicies.yaml"),
		filepath.Join(module, "config", "crd", "experimental", "policy.networking.k8s.io_baselineadminnetworkpolicies.yaml")}}
}

// TestAdminNetworkPolicies installs the kinds while the operator runs, removes them with all their policies, and
// installs them again.
func TestAdminNetworkPolicies(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1"}, 2)
	node := w.node("n1")
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.18.0.11"}}
	w.must(api.Status().Update(w.Context(), node))

	kinds := w.adminKinds()
	w.Cleanup(func() { w.must(envtest.UninstallCRDs(adminConfig, kinds)) })
	unknown := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy.networking.k8s.io/v1alpha1",
		"kind": "AdminNetworkPolicy", "metadata": map[string]any{"name": "guard"}}}
	for range 2 {
		o.settle()
		w.says(strings.Join(o.plan([]string{"plan"}, unknown).Notes, "\n"),
			"AdminNetworkPolicy guard: the API server does not have this kind")
		_, err := envtest.InstallCRDs(adminConfig, kinds)
		w.must(err)
		w.adminPolicies()
		w.wrongAdminPolicy()
		var checked admin.Violations
		w.must(o.query(nil, &checked, "check"))
		if len(checked.Violations) > 0 {
			t.Errorf("with policies: %v", checked.Violations)
		}
		w.must(envtest.UninstallCRDs(adminConfig, kinds))
		w.policyRules("adminnetworkpolicy/guard")
		w.policyRules("baselineadminnetworkpolicy/default")
	}
}

// wrongAdminPolicy creates a policy that cannot be read, and deletes it. The network's status names the policy and the field meanwhile.
func (w *world) wrongAdminPolicy() {
	w.Helper()
	wrong := &policyv1alpha1.AdminNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "wrong"}, Spec: policyv1alpha1.AdminNetworkPolicySpec{
		Priority: 8, Subject: policyv1alpha1.AdminNetworkPolicySubject{Namespaces: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "bad"}}}}}}
	named := func(status networkv1alpha1.ClusterNetworkStatus) bool {
		return slices.ContainsFunc(status.Problems, func(p networkv1alpha1.Problem) bool {
			return p.Object == "AdminNetworkPolicy/wrong" && strings.Contains(p.Message, "spec.subject")
		})
	}
	w.must(api.Create(w.Context(), wrong))
	for _, exists := range []bool{true, false} {
		w.status(func(status networkv1alpha1.ClusterNetworkStatus) error {
			if named(status) != exists {
				return fmt.Errorf("the policy exists: %v; problems %+v", exists, status.Problems)
			}
			return nil
		})
		w.must(client.IgnoreNotFound(api.Delete(w.Context(), wrong)))
	}
}

func (w *world) adminPolicies() {
	w.Helper()
	all := policyv1alpha1.AdminNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}
	guard := &policyv1alpha1.AdminNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: policyv1alpha1.AdminNetworkPolicySpec{Priority: 7, Subject: all,
			Egress: []policyv1alpha1.AdminNetworkPolicyEgressRule{
				{Action: policyv1alpha1.AdminNetworkPolicyRuleActionDeny,
					To:    []policyv1alpha1.AdminNetworkPolicyEgressPeer{{Networks: []policyv1alpha1.CIDR{"192.0.2.0/24"}}},
					Ports: &[]policyv1alpha1.AdminNetworkPolicyPort{{PortNumber: &policyv1alpha1.Port{Protocol: "TCP", Port: 443}}}},
				{Action: policyv1alpha1.AdminNetworkPolicyRuleActionPass,
					To: []policyv1alpha1.AdminNetworkPolicyEgressPeer{{Nodes: &metav1.LabelSelector{}}}}}}}
	w.must(api.Create(w.Context(), guard))
	w.inForce(guard, metav1.ConditionTrue, "0 of ingress, 2 of egress")
	baseline := &policyv1alpha1.BaselineAdminNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: policyv1alpha1.BaselineAdminNetworkPolicySpec{Subject: all,
			Egress: []policyv1alpha1.BaselineAdminNetworkPolicyEgressRule{
				{Action: policyv1alpha1.BaselineAdminNetworkPolicyRuleActionAllow,
					To: []policyv1alpha1.BaselineAdminNetworkPolicyEgressPeer{
						{Networks: []policyv1alpha1.CIDR{"2001:db8::/32"}}}}}}}
	w.must(api.Create(w.Context(), baseline))
	w.inForce(baseline, metav1.ConditionTrue, "0 of ingress, 1 of egress")
	w.policyRules("adminnetworkpolicy/guard", "1 from-lport drop: ip4.dst == 192.0.2.0/24 && tcp.dst == 443",
		"1 from-lport pass: ip4.dst == 172.18.0.11", "3 to-lport allow-related: ip")
	w.policyRules("baselineadminnetworkpolicy/default", "3 from-lport allow-related: ip6.dst == 2001:db8::/32")

	// Nodes report the addresses of a wildcard. For that they need the cluster's name servers.
	guard.Spec.Egress[1] = policyv1alpha1.AdminNetworkPolicyEgressRule{Action: policyv1alpha1.AdminNetworkPolicyRuleActionAllow,
		To: []policyv1alpha1.AdminNetworkPolicyEgressPeer{{DomainNames: []policyv1alpha1.DomainName{"*.example.org"}}}}
	w.must(api.Update(w.Context(), guard))
	w.inForce(guard, metav1.ConditionTrue, "*.example.org: the cluster's name servers are unknown")
	w.policyRules("adminnetworkpolicy/guard",
		"1 from-lport allow-related: (ip4.dst == $dns_.example.org_IPv4 || ip6.dst == $dns_.example.org_IPv6)",
		"1 from-lport drop: ip4.dst == 192.0.2.0/24 && tcp.dst == 443")
}
