package crd

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestEgressIPIsAcceptedOrRefused(t *testing.T) {
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"every field": {spec: `{egressIPs: [192.0.2.7, "2001:db8::7"], namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {app: b}}, whenUnassigned: Drop}`},
		"few":         {spec: `{egressIPs: [192.0.2.7], namespaceSelector: {}}`},
		"none":        {`{egressIPs: [], namespaceSelector: {}}`, refusal{"spec.egressIPs", []string{"at least 1"}}},
		"no selector": {`{egressIPs: [192.0.2.7]}`, refusal{"spec.namespaceSelector", []string{"Required"}}},
		"no address":  {`{egressIPs: [192.0.2.0/24], namespaceSelector: {}}`, refusal{"spec.egressIPs[0]", []string{`"192.0.2.0/24" is not an IPv4 or IPv6 address`}}},
		"multicast":   {`{egressIPs: [224.0.0.1], namespaceSelector: {}}`, refusal{"spec.egressIPs[0]", []string{"224.0.0.1 is not a unicast address"}}},
		"link-local":  {`{egressIPs: ["fe80::1"], namespaceSelector: {}}`, refusal{"spec.egressIPs[0]", []string{"fe80::1 is not a unicast address"}}},
		"twice":       {`{egressIPs: [192.0.2.7, 192.0.2.7], namespaceSelector: {}}`, refusal{"spec.egressIPs[1]", []string{"192.0.2.7"}}},
		"otherwise":   {`{egressIPs: ["2001:DB8::7"], namespaceSelector: {}}`, refusal{"spec.egressIPs[0]", []string{"2001:DB8::7 is not in canonical form"}}},
		"unassigned":  {`{egressIPs: [192.0.2.7], namespaceSelector: {}, whenUnassigned: Wait}`, refusal{"spec.whenUnassigned", []string{`"Drop"`}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), object(t, "EgressIP", "team", test.spec), client.DryRunAll))
		})
	}
}
