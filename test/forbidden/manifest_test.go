package forbidden

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

var update = flag.Bool("update", false, "write testdata/rights.golden")

// manifests are the objects of a bundle that define rights.
type manifests struct {
	accounts     []corev1.ServiceAccount
	roles        []rbacv1.ClusterRole // and Roles
	roleBindings []rbacv1.ClusterRoleBinding
	policies     []admissionv1.ValidatingAdmissionPolicy
	bindings     []admissionv1.ValidatingAdmissionPolicyBinding
	pods         map[string]corev1.PodSpec // Deployment or DaemonSet -> its pod template
}

func parse(t *testing.T, text []byte) manifests {
	t.Helper()
	found := manifests{pods: map[string]corev1.PodSpec{}}
	for reader := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		document := make([]byte, 1<<20)
		n, err := reader.Read(document)
		if errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		found.add(t, document[:n])
	}
}

func (m *manifests) add(t *testing.T, document []byte) {
	t.Helper()
	var meta metav1.TypeMeta
	decode(t, document, &meta)
	switch meta.Kind {
	case "ServiceAccount":
		m.accounts = append(m.accounts, decode(t, document, &corev1.ServiceAccount{}))
	case "Role", "ClusterRole":
		m.roles = append(m.roles, decode(t, document, &rbacv1.ClusterRole{}))
	case "RoleBinding", "ClusterRoleBinding":
		m.roleBindings = append(m.roleBindings, decode(t, document, &rbacv1.ClusterRoleBinding{}))
	case "ValidatingAdmissionPolicy":
		m.policies = append(m.policies, decode(t, document, &admissionv1.ValidatingAdmissionPolicy{}))
	case "ValidatingAdmissionPolicyBinding":
		m.bindings = append(m.bindings, decode(t, document, &admissionv1.ValidatingAdmissionPolicyBinding{}))
	case "Deployment", "DaemonSet":
		workload := decode(t, document, &struct {
			metav1.ObjectMeta `json:"metadata"`
			Spec              struct{ Template corev1.PodTemplateSpec }
		}{})
		m.pods[workload.Name] = workload.Spec.Template.Spec
	}
}

func decode[T any](t *testing.T, document []byte, into *T) T {
	t.Helper()
	if err := sigsyaml.Unmarshal(document, into); err != nil {
		t.Fatal(err)
	}
	return *into
}

// rights returns the lines of testdata/rights.golden: each right of the product.
func (m *manifests) rights() string {
	var lines []string
	for _, role := range m.roles {
		where := "everywhere"
		if role.Namespace != "" {
			where = "in " + role.Namespace
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					line := fmt.Sprintf("%-14s %-14s %-22s %-22s %s", role.Name, where, cmp.Or(group, "core"),
						resource, strings.Join(rule.Verbs, " "))
					if len(rule.ResourceNames) > 0 {
						line += " (" + strings.Join(rule.ResourceNames, " ") + ")"
					}
					lines = append(lines, line)
				}
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// TestRights compares every right of the product with a line of a file, for each way to install it, so that a change
// is reviewed.
func TestRights(t *testing.T) {
	for manifests, golden := range map[string]string{bundle: "testdata/rights.golden",
		"../../dist/install.yaml": "testdata/rights-install.golden"} {
		text, err := os.ReadFile(manifests)
		if err != nil {
			t.Fatal(err)
		}
		found := parse(t, text)
		if *update {
			if err := os.WriteFile(golden, []byte(found.rights()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(string(want), found.rights()); diff != "" {
			t.Errorf("the rights in %s changed (-update writes them):\n%s", manifests, diff)
		}
	}
}

// TestNoRightThatLeadsToOthers checks that no right of the product allows to obtain all others.
func TestNoRightThatLeadsToOthers(t *testing.T) {
	text, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	strong := []string{"*", "secrets", "serviceaccounts", "serviceaccounts/token", "roles", "rolebindings",
		"clusterroles", "clusterrolebindings", "pods/exec",
		"pods/attach", "pods/ephemeralcontainers", "nodes/proxy", "certificatesigningrequests",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings"}
	verbs := []string{"*", "escalate", "bind", "impersonate", "deletecollection"}
	for _, role := range parse(t, text).roles {
		for _, rule := range role.Rules {
			for _, given := range slices.Concat(rule.Resources, rule.APIGroups) {
				if slices.Contains(strong, given) {
					t.Errorf("role %s has rights on %s", role.Name, given)
				}
			}
			for _, verb := range rule.Verbs {
				if slices.Contains(verbs, verb) {
					t.Errorf("role %s may %s", role.Name, verb)
				}
			}
			if len(rule.NonResourceURLs) > 0 {
				t.Errorf("role %s has rights on %v", role.Name, rule.NonResourceURLs)
			}
		}
	}
}

func TestPoliciesNameTheOperatorAndTheAgent(t *testing.T) {
	text, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, parse(t, text), "weft-operator", "weft-agent", "weft-system")
}

// TestPoliciesFollowOtherNames installs Weft in another namespace and with other names by kustomize.
func TestPoliciesFollowOtherNames(t *testing.T) {
	base, err := filepath.Abs("../../config/default")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(dir, base)
	if err != nil {
		t.Fatal(err)
	}
	overlay := "resources: [" + relative + "]\nnamespace: network\nnamePrefix: my-\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), programs.Bin("kubectl"), "kustomize", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, parse(t, text), "my-weft-operator", "my-weft-agent", "network")
}

// checkNames checks that each policy is bound and names an existing ServiceAccount that the product uses.
func checkNames(t *testing.T, m manifests, operator, agent, namespace string) {
	t.Helper()
	if got := m.pods[operator].ServiceAccountName; got != operator {
		t.Errorf("the operator runs as %q, not %s", got, operator)
	}
	if got := m.pods[agent].ServiceAccountName; got != agent {
		t.Errorf("the agent runs as %q, not %s", got, agent)
	}
	for _, policy := range m.policies {
		want := operator
		ofAgents := func(name string) bool { return strings.HasSuffix(policy.Name, name) }
		if slices.ContainsFunc([]string{"weft-agents", "weft-hostports", "weft-networkstatus"}, ofAgents) {
			want = agent
		}
		i := slices.IndexFunc(m.bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == policy.Name
		})
		if i < 0 {
			t.Errorf("policy %s has no binding", policy.Name)
			continue
		}
		if kind := policy.Spec.ParamKind; kind != nil && kind.Kind == "ClusterNetwork" {
			if ref := m.bindings[i].Spec.ParamRef; ref == nil || ref.Name != v1alpha1.ClusterNetworkName || ref.Namespace != "" {
				t.Errorf("policy %s has the parameter %+v, want the ClusterNetwork", policy.Name, ref)
			}
			continue
		}
		if ref := m.bindings[i].Spec.ParamRef; ref == nil || ref.Name != want || ref.Namespace != namespace {
			t.Errorf("policy %s has the parameter %+v, want the ServiceAccount %s/%s", policy.Name, ref, namespace, want)
		}
		if !slices.ContainsFunc(m.accounts, func(a corev1.ServiceAccount) bool { return a.Name == want && a.Namespace == namespace }) {
			t.Errorf("ServiceAccount %s/%s does not exist", namespace, want)
		}
	}
	for _, binding := range m.roleBindings {
		for _, subject := range binding.Subjects {
			if subject.Namespace != namespace || subject.Name != operator && subject.Name != agent {
				t.Errorf("binding %s gives rights to %s/%s", binding.Name, subject.Namespace, subject.Name)
			}
		}
	}
	if len(m.policies) != 17 || len(m.bindings) != 17 {
		t.Errorf("%d policies and %d bindings, want 17 each", len(m.policies), len(m.bindings))
	}
}
