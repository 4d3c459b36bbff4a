package crd

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestEgressIPIsAcceptedOrRefused(t *testing.T) {
	selector := func(selector string) string { return `{egressIPs: [192.0.2.7], namespaceSelector: ` + selector + `}` }
	pods := func(selector string) string {
		return `{egressIPs: [192.0.2.7], namespaceSelector: {}, podSelector: ` + selector + `}`
	}
	longest := strings.Repeat("a", 63)
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"every field": {
			spec: `{egressIPs: [192.0.2.7, "2001:db8::7"], namespaceSelector: {matchLabels: {team: a}},
				podSelector: {matchLabels: {app: b}}, whenUnassigned: Drop}`},
		"few":         {spec: `{egressIPs: [192.0.2.7], namespaceSelector: {}}`},
		"none":        {`{egressIPs: [], namespaceSelector: {}}`, refusal{"spec.egressIPs", []string{"at least 1"}}},
		"no selector": {`{egressIPs: [192.0.2.7]}`, refusal{"spec.namespaceSelector", []string{"Required"}}},
		"no address": {`{egressIPs: [192.0.2.0/24], namespaceSelector: {}}`,
			refusal{"spec.egressIPs[0]", []string{`"192.0.2.0/24" is not an IPv4 or IPv6 address`}}},
		"multicast": {`{egressIPs: [224.0.0.1], namespaceSelector: {}}`,
			refusal{"spec.egressIPs[0]", []string{"224.0.0.1 is not a unicast address"}}},
		"link-local": {`{egressIPs: ["fe80::1"], namespaceSelector: {}}`,
			refusal{"spec.egressIPs[0]", []string{"fe80::1 is not a unicast address"}}},
		"twice": {`{egressIPs: [192.0.2.7, 192.0.2.7], namespaceSelector: {}}`, refusal{"spec.egressIPs[1]", []string{"192.0.2.7"}}},
		"otherwise": {`{egressIPs: ["2001:DB8::7"], namespaceSelector: {}}`,
			refusal{"spec.egressIPs[0]", []string{"2001:DB8::7 is not in canonical form"}}},
		"unassigned": {`{egressIPs: [192.0.2.7], namespaceSelector: {}, whenUnassigned: Wait}`,
			refusal{"spec.whenUnassigned", []string{`"Drop"`}}},

		"keys": {spec: selector(`{matchLabels: {"kubernetes.io/metadata.name": a, A_b.c-D: "", "a.b-c/` + longest +
			`": ` + longest + `}}`)},
		"every operator": {spec: pods(`{matchExpressions: [{key: a, operator: In, values: [b]}, {key: a, operator: NotIn, values: [b, ""]},
			{key: a, operator: Exists}, {key: a, operator: DoesNotExist, values: []}]}`)},
		"space in a key": {selector(`{matchLabels: {"team a": b}}`),
			refusal{"spec.namespaceSelector.matchLabels", []string{`"team a" is not a label key`}}},
		"two slashes in a key": {pods(`{matchLabels: {a/b/c: d}}`), refusal{"spec.podSelector.matchLabels",
			[]string{`"a/b/c" is not a label key`}}},
		"empty prefix of a key": {selector(`{matchLabels: {/a: b}}`), refusal{"spec.namespaceSelector.matchLabels",
			[]string{`"/a" is not a label key`}}},
		"empty key": {selector(`{matchLabels: {"": b}}`), refusal{"spec.namespaceSelector.matchLabels",
			[]string{`"" is not a label key`}}},
		"key too long": {pods(`{matchLabels: {` + longest + `a: b}}`),
			refusal{"spec.podSelector.matchLabels", []string{"not a label key"}}},
		"key with a dot first": {pods(`{matchLabels: {.a: b}}`), refusal{"spec.podSelector.matchLabels", []string{"not a label key"}}},
		"value too long": {selector(`{matchLabels: {a: ` + longest + `a}}`),
			refusal{"spec.namespaceSelector.matchLabels", []string{"at most 63"}}},
		"unknown operator": {selector(`{matchExpressions: [{key: a, operator: Equals}]}`),
			refusal{"spec.namespaceSelector.matchExpressions", []string{"DoesNotExist"}}},
		"In without values": {pods(`{matchExpressions: [{key: a, operator: In}]}`),
			refusal{"spec.podSelector.matchExpressions", []string{"need values"}}},
		"Exists with values": {selector(`{matchExpressions: [{key: a, operator: Exists, values: [b]}]}`),
			refusal{"spec.namespaceSelector.matchExpressions", []string{"have none"}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), object(t, "EgressIP", "team", test.spec), client.DryRunAll))
		})
	}
}
