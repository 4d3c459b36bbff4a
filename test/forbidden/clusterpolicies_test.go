package forbidden

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/poll"
)

// A word that nobody can read in a policy of the whole cluster is refused, because its rule would fail closed, and its subject be nobody.
func TestAWrongWordInAClusterPolicyIsRefused(t *testing.T) {
	module, err := tools.ModuleFolder(t.Context(), "policyapi", "go.mod", "sigs.k8s.io/network-policy-api")
	if err != nil {
		t.Fatal(err)
	}
	crd := filepath.Join(module, "config", "crd", "experimental", "policy.networking.k8s.io_clusternetworkpolicies.yaml")
	installed, err := envtest.InstallCRDs(restConfig, envtest.CRDInstallOptions{Paths: []string{crd}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := envtest.UninstallCRDs(restConfig, envtest.CRDInstallOptions{CRDs: installed}); err != nil {
			t.Error(err)
		}
	})
	c, err := dynamic.NewForConfig(restConfig)
	if err != nil {
		t.Fatal(err)
	}
	policies := c.Resource(schema.GroupVersionResource{Group: "policy.networking.k8s.io", Version: "v1alpha2",
		Resource: "clusternetworkpolicies"})
	create := func(subject, from, to string, options metav1.CreateOptions) (*unstructured.Unstructured, error) {
		policy := &unstructured.Unstructured{}
		text := fmt.Sprintf(`{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: edge},
spec: {tier: Admin, priority: 5, subject: %s, ingress: [{action: Deny, from: [{namespaces: {}}, %s]}],
egress: [{action: Accept, to: [%s]}]}}`, subject, from, to)
		if err := yaml.Unmarshal([]byte(text), &policy.Object); err != nil {
			t.Fatal(err)
		}
		return policies.Create(t.Context(), policy, options)
	}
	const all, namespaces = `{namespaces: {}}`, `{namespaces: {matchLabels: {team: a}}}`
	const outside = `{networks: [192.0.2.0/24, "2001:db8::/32"]}`
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	const values, key, value = "operator and values do not fit", "no label key", "no label value"
	matching := func(selector string) string { return `{namespaces: ` + selector + `}` }
	for name, p := range map[string]struct{ subject, from, to, want string }{
		"good": {all, namespaces, outside, ""},
		"good expressions": {`{pods: {namespaceSelector: {}, podSelector: {matchExpressions: [
{key: example.com/app, operator: NotIn, values: [a, b_c.D]}, {key: x, operator: Exists}]}}}`,
			`{pods: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: demo}}, podSelector: {}}}`,
			`{nodes: {matchLabels: {edge: ""}}}`, ""},
		"operator of the subject": {matching(`{matchExpressions: [{key: a, operator: in, values: [a]}]}`), namespaces, outside, values},
		"operator of a peer":      {all, matching(`{matchExpressions: [{key: a, operator: Near, values: [a]}]}`), outside, values},
		"operator without values": {all, namespaces, matching(`{matchExpressions: [{key: a, operator: NotIn}]}`), values},
		"values of Exists":        {all, namespaces, `{nodes: {matchExpressions: [{key: a, operator: Exists, values: [a]}]}}`, values},
		"key of a label":          {`{pods: {namespaceSelector: {}, podSelector: {matchLabels: {"a ": a}}}}`, namespaces, outside, key},
		"key of an expression": {all, `{pods: {namespaceSelector: {}, podSelector: {matchExpressions: [{key: "-a", operator: Exists}]}}}`,
			outside, key},
		"value of a label":       {all, namespaces, matching(`{matchLabels: {a: "a b"}}`), value},
		"value of an expression": {all, namespaces, `{nodes: {matchExpressions: [{key: a, operator: In, values: ["é"]}]}}`, value},
		"one of several peers":   {all, namespaces, `{namespaces: {}}, ` + matching(`{matchLabels: {a: "a "}}`), value},
	} {
		t.Run(name, func(t *testing.T) {
			err := poll.Slowly(t.Context(), time.Minute, func() error {
				_, err := create(p.subject, p.from, p.to, dry)
				if (err == nil) != (p.want == "") || err != nil && !strings.Contains(err.Error(), p.want) {
					return fmt.Errorf("%v, want %q", err, p.want)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	made, err := create(all, namespaces, outside, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = policies.Delete(context.Background(), made.GetName(), metav1.DeleteOptions{}) })
	if err := unstructured.SetNestedField(made.Object, "in", "spec", "subject", "namespaces", "matchLabels", "team a"); err != nil {
		t.Fatal(err)
	}
	if _, err := policies.Update(t.Context(), made, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "no label key") {
		t.Errorf("an update: %v", err)
	}
}
