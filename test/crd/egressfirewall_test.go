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
		`{type: Allow, to: {cidrSelector: "2001:db8::/32"}, ports: [`+strings.TrimSuffix(
			strings.Repeat(`{protocol: TCP, port: 1, endPort: 2},`, 50), ",")+`]},`, 1000), ",") + `]}`
	label := strings.Repeat("a", 63)
	longest := strings.Repeat(label+".", 3) + label[:61] // 253 characters
	for name, test := range map[string]struct {
		spec string
		want refusal
	}{
		"no rule": {spec: `{egress: []}`},
		"every field": {
			spec: `{egress: [{type: Allow, to: {cidrSelector: 192.0.2.0/24},
				ports: [{protocol: TCP, port: 80}, {protocol: UDP, port: 1, endPort: 65535}, {protocol: SCTP}]}]}`},
		"everything":          {spec: to(`{cidrSelector: "::/0"}`)},
		"metadata of a cloud": {spec: to(`{cidrSelector: 169.254.169.254/32}`)},
		"name":                {spec: to(`{dnsName: "A-1.Example.org."}`)},
		"nodes":               {spec: to(`{nodeSelector: {matchLabels: {zone: a}}}`)},
		"all nodes":           {spec: to(`{nodeSelector: {}}`)},
		"as much as possible": {spec: largest},
		"no list":             {`{}`, refusal{"spec.egress", []string{"Required"}}},
		"unknown type": {`{egress: [{type: Reject, to: {cidrSelector: 0.0.0.0/0}}]}`,
			refusal{"spec.egress[0].type", []string{`"Allow"`, `"Deny"`}}},
		"nowhere":          {to(`{}`), refusal{"spec.egress[0].to", []string{"exactly one of cidrSelector, dnsName and nodeSelector"}}},
		"two destinations": {to(`{cidrSelector: 0.0.0.0/0, nodeSelector: {}}`), refusal{"spec.egress[0].to", []string{"exactly one"}}},
		"no CIDR": {to(`{cidrSelector: 192.0.2.1}`), refusal{"spec.egress[0].to.cidrSelector",
			[]string{`"192.0.2.1" is not an IPv4 or IPv6 CIDR`}}},
		"host bits": {to(`{cidrSelector: 192.0.2.1/24}`), refusal{"spec.egress[0].to.cidrSelector",
			[]string{"192.0.2.1/24 has host bits"}}},
		"one label":                      {to(`{dnsName: localhost}`), refusal{"spec.egress[0].to.dnsName", []string{"should match"}}},
		"wildcard":                       {spec: to(`{dnsName: "*.Example.org."}`)},
		"wildcard of a top-level domain": {to(`{dnsName: "*.org"}`), refusal{"spec.egress[0].to.dnsName", []string{"should match"}}},
		"wildcard within a label":        {to(`{dnsName: "*a.example.org"}`), refusal{"spec.egress[0].to.dnsName", []string{"should match"}}},
		"wildcard in the middle":         {to(`{dnsName: "a.*.example.org"}`), refusal{"spec.egress[0].to.dnsName", []string{"should match"}}},
		"underscore":                     {to(`{dnsName: a_b.example.org}`), refusal{"spec.egress[0].to.dnsName", []string{"should match"}}},
		"IPv4 address": {to(`{dnsName: 1.2.3.4}`), refusal{"spec.egress[0].to.dnsName",
			[]string{"1.2.3.4 is an IP address, not a DNS name: use cidrSelector 1.2.3.4/32"}}},
		"IPv6 address":        {to(`{dnsName: "2001:db8::1"}`), refusal{"spec.egress[0].to.dnsName", []string{"should match"}}},
		"address with a dot":  {to(`{dnsName: 1.2.3.4.}`), refusal{"spec.egress[0].to.dnsName", []string{"its last label is a number"}}},
		"short address":       {to(`{dnsName: "10.1"}`), refusal{"spec.egress[0].to.dnsName", []string{"its last label is a number"}}},
		"hexadecimal address": {to(`{dnsName: a.0x7F}`), refusal{"spec.egress[0].to.dnsName", []string{"its last label is a number"}}},
		"numbers elsewhere":   {spec: to(`{dnsName: 1.2.0x7f.4.4a}`)},
		"empty label":         {to(`{dnsName: a..example.org}`), refusal{"spec.egress[0].to.dnsName", []string{"should match"}}},
		"dot first":           {to(`{dnsName: .example.org}`), refusal{"spec.egress[0].to.dnsName", []string{"should match"}}},
		"two dots last":       {to(`{dnsName: example.org..}`), refusal{"spec.egress[0].to.dnsName", []string{"should match"}}},
		"longest label":       {spec: to(`{dnsName: ` + label + `.example.org}`)},
		"label too long": {to(`{dnsName: ` + label + `a.example.org}`), refusal{"spec.egress[0].to.dnsName",
			[]string{"should match"}}},
		"longest name": {spec: to(`{dnsName: ` + longest + `.}`)},
		"name too long": {to(`{dnsName: ` + longest + `a}`), refusal{"spec.egress[0].to.dnsName",
			[]string{"at most 253 characters"}}},
		"unknown protocol": {ports(`{protocol: ICMP}`), refusal{"spec.egress[0].ports[0].protocol",
			[]string{`"SCTP"`, `"TCP"`, `"UDP"`}}},
		"port 65536": {ports(`{protocol: TCP, port: 65536}`), refusal{"spec.egress[0].ports[0].port", []string{"65535"}}},
		"range without begin": {ports(`{protocol: TCP, endPort: 80}`), refusal{"spec.egress[0].ports[0].endPort",
			[]string{"endPort needs a port"}}},
		"range backwards": {ports(`{protocol: TCP, port: 81, endPort: 80}`),
			refusal{"spec.egress[0].ports[0].endPort", []string{"not above it"}}},
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
