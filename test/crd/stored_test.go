package crd

import (
	"context"
	"fmt"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/poll"
)

// TestStoredObjectsStayWritable checks that an object accepted by an earlier definition stays writable: its status,
// its labels, and its valid fields.
func TestStoredObjectsStayWritable(t *testing.T) {
	firewall := egressFirewall(t, v1alpha1.EgressFirewallName,
		`{egress: [{type: Deny, to: {dnsName: 1.2.3.4}}, {type: Allow, to: {dnsName: "10.1"}}]}`)
	for name, test := range map[string]struct {
		plural string
		stored *unstructured.Unstructured
		status map[string]any
		field  []string // another field of spec
		value  any
	}{
		"ClusterNetwork": {plural: "clusternetworks", status: map[string]any{"nodesReady": "1/1"},
			field: []string{"mtu"}, value: int64(1400),
			stored: clusterNetwork(t,
				`{clusterNetwork: [{cidr: "fd69::/48"}], serviceNetwork: ["fd00:10:96::/112"], joinSubnet: ["fe00::/8"]}`)},
		"EgressIP": {plural: "egressips", status: map[string]any{"items": []any{}}, field: []string{"whenUnassigned"}, value: "Drop",
			stored: object(t, "EgressIP", "stored",
				`{egressIPs: [192.0.2.7], namespaceSelector: {matchLabels: {"team a": b}},
				podSelector: {matchExpressions: [{key: a, operator: In}]}}`)},
		"Network": {plural: "networks", status: map[string]any{"attachments": int64(1)},
			field: []string{"excludeSubnets"}, value: []any{"10.1.7.0/24"},
			stored: object(t, "Network", "stored", `{topology: Layer2, subnets: [{cidr: 10.1.0.0/16}], excludeSubnets: [192.0.2.0/24]}`)},
		"Layer3 Network": {plural: "networks", status: map[string]any{"attachments": int64(1)}, field: []string{"mtu"}, value: int64(1400),
			stored: object(t, "Network", "stored-layer3", `{topology: Layer3, subnets: [{cidr: 10.1.0.0/24}], namespaces: {}}`)},
		"LoadBalancerPool": {plural: "loadbalancerpools", status: map[string]any{"used": int64(1)}, field: []string{"autoAssign"}, value: false,
			stored: object(t, "LoadBalancerPool", "stored", `{addresses: [192.0.2.0/28], nodeSelector: {matchLabels: {"team a": b}}}`)},
		"EgressQoS": {plural: "egressqoses", status: map[string]any{"conditions": []any{}},
			stored: egressQoS(t, v1alpha1.EgressQoSName, `{egress: [{dscp: 1, dstCIDR: 192.0.2.1}]}`)},
		"EgressFirewall": {plural: "egressfirewalls", status: map[string]any{"conditions": []any{}}, stored: firewall},
	} {
		t.Run(name, func(t *testing.T) {
			storeUnvalidated(t, test.plural, test.stored)
			if err := unstructured.SetNestedMap(test.stored.Object, test.status, "status"); err != nil {
				t.Fatal(err)
			}
			if err := api.Status().Update(t.Context(), test.stored); err != nil {
				t.Errorf("status: %v", err)
			}
			test.stored.SetLabels(map[string]string{"a": "b"})
			if err := api.Update(t.Context(), test.stored); err != nil {
				t.Errorf("labels: %v", err)
			}
			if test.field == nil {
				return
			}
			if err := unstructured.SetNestedField(test.stored.Object, test.value, append([]string{"spec"}, test.field...)...); err != nil {
				t.Fatal(err)
			}
			if err := api.Update(t.Context(), test.stored); err != nil {
				t.Errorf("%v: %v", test.field, err)
			}
		})
	}
}

// storeUnvalidated stores an object while its definition has no CEL rules, and returns when the rules are in force
// again.
func storeUnvalidated(t *testing.T, plural string, o *unstructured.Unstructured) {
	t.Helper()
	refused := o.DeepCopy()
	if err := api.Create(t.Context(), refused.DeepCopy(), client.DryRunAll); !apierrors.IsInvalid(err) {
		t.Fatalf("the object is not refused: %v", err)
	}
	definitions := definitionsClient(t)
	var rules apiextensionsv1.CustomResourceDefinitionSpec
	change := func(ctx context.Context, to func(*apiextensionsv1.CustomResourceDefinition)) {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := definitions.Get(ctx, types.NamespacedName{Name: plural + "." + v1alpha1.GroupName}, definition); err != nil {
			t.Fatal(err)
		}
		to(definition)
		if err := definitions.Update(ctx, definition); err != nil {
			t.Fatal(err)
		}
	}
	change(t.Context(), func(d *apiextensionsv1.CustomResourceDefinition) {
		rules = *d.Spec.DeepCopy()
		stripRules(d.Spec.Versions[0].Schema.OpenAPIV3Schema)
	})
	until(t, func() error { return api.Create(t.Context(), refused.DeepCopy(), client.DryRunAll) })
	create(t, o)
	change(context.WithoutCancel(t.Context()), func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec = rules })
	refused.SetName(refused.GetName() + "-again") // another name, because the stored object exists
	until(t, func() error {
		if err := api.Create(t.Context(), refused.DeepCopy(), client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the rules are not in force again: %w", err)
		}
		return nil
	})
}

// stripRules removes the CEL rules of a schema and of everything in it.
func stripRules(s *apiextensionsv1.JSONSchemaProps) {
	if s == nil {
		return
	}
	s.XValidations = nil
	for name, property := range s.Properties {
		stripRules(&property)
		s.Properties[name] = property
	}
	if s.Items != nil {
		stripRules(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		stripRules(s.AdditionalProperties.Schema)
	}
}

// until polls the API server: it applies a changed definition with a delay that it reports nowhere.
func until(t *testing.T, ready func() error) {
	t.Helper()
	poll.Eventually(t, time.Minute, ready)
}
