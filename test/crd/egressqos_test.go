package crd

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

func egressQoS(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	qos := object(t, "EgressQoS", name, spec)
	qos.SetNamespace("default")
	return qos
}

func TestEgressQoSIsAcceptedOrRefused(t *testing.T) {
	many := func(n int) string {
		return `{egress: [` + strings.TrimSuffix(strings.Repeat(`{dscp: 1, dstCIDR: 192.0.2.0/24},`, n), ",") + `]}`
	}
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"every field": {spec: `{egress: [{dscp: 46, dstCIDR: "2001:db8::/32", podSelector: {matchLabels: {a: b}},
			bandwidth: {rate: 1, burst: 525}}]}`},
		"no mark at all":      {spec: `{egress: [{dscp: 0}, {bandwidth: {rate: 4294967295}}]}`},
		"as much as possible": {spec: many(100)},
		"no rule":             {`{egress: []}`, refusal{"spec.egress", []string{"at least 1"}}},
		"without effect": {`{egress: [{dstCIDR: 192.0.2.0/24}]}`,
			refusal{"spec.egress[0]", []string{"dscp, bandwidth or both are needed"}}},
		"no code point": {`{egress: [{dscp: 64}]}`, refusal{"spec.egress[0].dscp", []string{"less than or equal to 63"}}},
		"no CIDR": {`{egress: [{dscp: 1, dstCIDR: 192.0.2.1}]}`, refusal{"spec.egress[0].dstCIDR",
			[]string{`"192.0.2.1" is not an IPv4 or IPv6 CIDR`}}},
		"host bits": {`{egress: [{dscp: 1, dstCIDR: 192.0.2.1/24}]}`, refusal{"spec.egress[0].dstCIDR",
			[]string{"192.0.2.1/24 has host bits"}}},
		"no rate": {`{egress: [{bandwidth: {burst: 1000}}]}`, refusal{"spec.egress[0].bandwidth.rate", []string{"Required"}}},
		"rate of 0": {`{egress: [{bandwidth: {rate: 0}}]}`,
			refusal{"spec.egress[0].bandwidth.rate", []string{"greater than or equal to 1"}}},
		"too high":       {`{egress: [{bandwidth: {rate: 4294967296}}]}`, refusal{"spec.egress[0].bandwidth.rate", []string{"4294967295"}}},
		"too small":      {`{egress: [{bandwidth: {rate: 1, burst: 524}}]}`, refusal{"spec.egress[0].bandwidth.burst", []string{"525"}}},
		"too many rules": {many(101), refusal{"spec.egress", []string{"100"}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), egressQoS(t, v1alpha1.EgressQoSName, test.spec), client.DryRunAll))
		})
	}
	err := api.Create(t.Context(), egressQoS(t, "other", `{egress: [{dscp: 1}]}`), client.DryRunAll)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "a namespace has one EgressQoS, and its name is default") {
		t.Errorf("another name: %v", err)
	}
}
