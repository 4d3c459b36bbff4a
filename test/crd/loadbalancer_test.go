package crd

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

func TestLoadBalancerPoolIsAcceptedOrRefused(t *testing.T) {
	of := func(address string) string { return `{addresses: ["` + address + `"]}` }
	class := func(class string) string {
		return `{addresses: [192.0.2.1], loadBalancerClass: "` + class + `"}`
	}
	notAddresses := func(text string) refusal {
		return refusal{"spec.addresses[0]", []string{`"` + text + `" is not an address, a CIDR, or the first and the last address`}}
	}
	notAClass := refusal{"spec.loadBalancerClass", []string{"should match"}}
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"every field": {spec: `{addresses: [192.0.2.0/28, "2001:db8::/120"], loadBalancerClass: weft.dev/inner, servicesWithoutClass: true,
			autoAssign: false, serviceSelector: {matchLabels: {tier: web}}, namespaceSelector: {},
			nodeSelector: {matchExpressions: [{key: edge, operator: Exists}]}}`},
		"an address":            {spec: of("192.0.2.1")},
		"two addresses":         {spec: of("192.0.2.10-192.0.2.99")},
		"IPv6":                  {spec: of("2001:db8:: - 2001:db8::ffff")},
		"text":                  {of("web"), notAddresses("web")},
		"a short last one":      {of("192.0.2.1-9"), notAddresses("192.0.2.1-9")},
		"no address":            {`{addresses: []}`, refusal{"spec.addresses", []string{"at least 1"}}},
		"addresses are absent":  {`{}`, refusal{"spec.addresses", []string{"Required"}}},
		"another class":         {class("example.com/lb"), notAClass},
		"a class without name":  {class("weft.dev/"), notAClass},
		"a class in upper case": {class("weft.dev/Inner"), notAClass},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), object(t, "LoadBalancerPool", "web", test.spec), client.DryRunAll))
		})
	}
}

func TestLoadBalancerColumns(t *testing.T) {
	pool := object(t, "LoadBalancerPool", "web", `{addresses: [192.0.2.0/28]}`)
	create(t, pool)
	pool.Object["status"] = map[string]any{"total": int64(16), "used": int64(3), "free": int64(13),
		"announcements": []any{map[string]any{"address": "192.0.2.1", "node": "n1"}}, "conditions": []any{
			map[string]any{"type": v1alpha1.ConditionReady, "status": "True", "reason": v1alpha1.ReasonAsExpected, "message": "Services can",
				"lastTransitionTime": "2026-01-02T03:04:05Z"}}}
	if err := api.Status().Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	wantColumns(t, "loadbalancerpools", map[string]string{"Name": "web", "Class": v1alpha1.DefaultLoadBalancerClass, "Total": "16",
		"Used": "3", "Free": "13", "Ready": "True", "Message*": "Services can"})
}
