package policylog

import (
	"maps"
	"testing"
)

func TestRulesOfMeters(t *testing.T) {
	got, err := rulesOf("acl-logging__67: 7\nnetworkpolicy/demo/web drop ingress isolation: 1\n" +
		"clusternetworkpolicy/base allow egress[0]: 12\n\n" +
		"egressfirewall/demo/default drop Deny cidrSelector ::/0 TCP:80: 3\n")
	want := map[uint32]RulePackets{
		1:  {Kind: "networkpolicy", Namespace: "demo", Name: "web", Verdict: "drop", Rule: "ingress isolation"},
		12: {Kind: "clusternetworkpolicy", Name: "base", Verdict: "allow", Rule: "egress[0]"},
		3:  {Kind: "egressfirewall", Namespace: "demo", Name: "default", Verdict: "drop", Rule: "Deny cidrSelector ::/0 TCP:80"},
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := rulesOf("networkpolicy/demo/web drop ingress[0]: many\n"); err == nil {
		t.Error("an invalid number is accepted")
	}
}
