package crd

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestExternalRouteIsAcceptedOrRefused(t *testing.T) {
	many := func(n int) string {
		var hops []string
		for i := range n {
			hops = append(hops, fmt.Sprintf("{address: 192.0.2.%d}", i+1))
		}
		return `{namespaceSelector: {}, nextHops: {static: [` + strings.Join(hops, ", ") + `]}}`
	}
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"every field": {spec: `{namespaceSelector: {matchLabels: {a: b}}, podSelector: {matchLabels: {a: b}},
			nextHops: {static: [{address: "2001:db8::1", bfd: true}],
			pods: [{namespaceSelector: {}, podSelector: {matchLabels: {a: b}}, network: infra/dc, bfd: true}]}}`},
		"as many as possible": {spec: many(16)},
		"too many":            {many(17), refusal{"spec.nextHops.static", []string{"16"}}},
		"no router": {`{namespaceSelector: {}, nextHops: {}}`,
			refusal{"spec.nextHops", []string{"static, pods or both are needed"}}},
		"an empty list": {`{namespaceSelector: {}, nextHops: {static: []}}`,
			refusal{"spec.nextHops", []string{"static, pods or both"}}},
		"no namespaces": {`{nextHops: {static: [{address: 192.0.2.1}]}}`,
			refusal{"spec.namespaceSelector", []string{"Required"}}},
		"no address": {`{namespaceSelector: {}, nextHops: {static: [{address: gw}]}}`,
			refusal{"spec.nextHops.static[0].address", []string{"gw"}}},
		"a link-local address": {`{namespaceSelector: {}, nextHops: {static: [{address: "fe80::1"}]}}`,
			refusal{"spec.nextHops.static[0].address", []string{"unicast"}}},
		"one address twice": {`{namespaceSelector: {}, nextHops: {static: [{address: 192.0.2.1}, {address: 192.0.2.1}]}}`,
			refusal{"spec.nextHops.static[1]", []string{"Duplicate"}}},
		"a network without one": {`{namespaceSelector: {}, nextHops: {pods: [{namespaceSelector: {}, podSelector: {}, network: segment}]}}`,
			refusal{"spec.nextHops.pods[0].network", []string{"should match"}}},
		"no label key": {`{namespaceSelector: {matchLabels: {"a b": c}}, nextHops: {static: [{address: 192.0.2.1}]}}`,
			refusal{"spec.namespaceSelector.matchLabels", []string{"a b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), object(t, "ExternalRoute", "route", test.spec), client.DryRunAll))
		})
	}
}
