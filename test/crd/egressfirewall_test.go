package crd

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

func egressFirewall(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	firewall := object(t, "EgressFirewall", name, spec)
	firewall.SetNamespace("default")
	return firewall
}

func TestEgressFirewallIsAcceptedOrRefused(t *testing.T) {
	to := func(to string) string { return fmt.Sprintf(`{egress: [{type: Deny, to: %s}]}`, to) }
	ports := func(port string) string {
		return fmt.Sprintf(`{egress: [{type: Allow, to: {cidrSelector: 0.0.0.0/0}, ports: [%s]}]}`, port)
	}
	largest := `{egress: [` + strings.TrimSuffix(strings.Repeat(
		`{type: Allow, to: {cidrSelector: "2001:db8::/32"}, ports: [`+strings.TrimSuffix(strings.Repeat(`{protocol: TCP, port: 1, endPort: 2},`, 50), ",")+`]},`, 1000), ",") + `]}`
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"no rule":             {spec: `{egress: []}`},
		"every field":         {spec: `{egress: [{type: Allow, to: {cidrSelector: 192.0.2.0/24}, ports: [{protocol: TCP, port: 80}, {protocol: UDP, port: 1, endPort: 65535}, {protocol: SCTP}]}]}`},
		"everything":          {spec: to(`{cidrSelector: "::/0"}`)},
		"metadata of a cloud": {spec: to(`{cidrSelector: 169.254.169.254/32}`)},
		"name":                {spec: to(`{dnsName: "A-1.Example.org."}`)},
		"nodes":               {spec: to(`{nodeSelector: {matchLabels: {zone: a}}}`)},
		"all nodes":           {spec: to(`{nodeSelector: {}}`)},
		"as much as possible": {spec: largest},
		"no list":             {`{}`, refusal{"spec.egress", []string{"Required"}}},
		"unknown type":        {`{egress: [{type: Reject, to: {cidrSelector: 0.0.0.0/0}}]}`, refusal{"spec.egress[0].type", []string{`"Allow"`, `"Deny"`}}},
		"nowhere":             {to(`{}`), refusal{"spec.egress[0].to", []string{"exactly one of cidrSelector, dnsName and nodeSelector"}}},
		"two destinations":    {to(`{cidrSelector: 0.0.0.0/0, nodeSelector: {}}`), refusal{"spec.egress[0].to", []string{"exactly one"}}},
		"no CIDR":             {to(`{cidrSelector: 192.0.2.1}`), refusal{"spec.egress[0].to.cidrSelector", []string{`"192.0.2.1" is not an IPv4 or IPv6 CIDR`}}},
		"host bits":           {to(`{cidrSelector: 192.0.2.1/24}`), refusal{"spec.egress[0].to.cidrSelector", []string{"192.0.2.1/24 has host bits"}}},
		"one label":           {to(`{dnsName: localhost}`), refusal{"spec.egress[0].to.dnsName", []string{"should match"}}},
		"wildcard":            {to(`{dnsName: "*.example.org"}`), refusal{"spec.egress[0].to.dnsName", []string{"should match"}}},
		"underscore":          {to(`{dnsName: a_b.example.org}`), refusal{"spec.egress[0].to.dnsName", []string{"should match"}}},
		"unknown protocol":    {ports(`{protocol: ICMP}`), refusal{"spec.egress[0].ports[0].protocol", []string{`"SCTP"`, `"TCP"`, `"UDP"`}}},
		"port 65536":          {ports(`{protocol: TCP, port: 65536}`), refusal{"spec.egress[0].ports[0].port", []string{"65535"}}},
		"range without begin": {ports(`{protocol: TCP, endPort: 80}`), refusal{"spec.egress[0].ports[0].endPort", []string{"endPort needs a port"}}},
		"range backwards":     {ports(`{protocol: TCP, port: 81, endPort: 80}`), refusal{"spec.egress[0].ports[0].endPort", []string{"not above it"}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, api.Create(t.Context(), egressFirewall(t, v1alpha1.EgressFirewallName, test.spec), client.DryRunAll))
		})
	}
	err := api.Create(t.Context(), egressFirewall(t, "second", `{egress: []}`), client.DryRunAll)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "a namespace has one EgressFirewall, and its name is default") {
		t.Errorf("another name gives %v", err)
	}
}
