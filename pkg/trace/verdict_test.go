package trace

import (
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/unit"
)

// Each row of Weft is named by the object that its unit is made from.
func TestObjects(t *testing.T) {
	for owner, want := range map[unit.Key]string{
		"networkpolicy/demo/web":             "NetworkPolicy demo/web",
		"multinetworkpolicy/demo/web":        "MultiNetworkPolicy demo/web",
		"clusternetworkpolicy/first":         "ClusterNetworkPolicy first",
		"adminnetworkpolicy/second":          "AdminNetworkPolicy second",
		"baselineadminnetworkpolicy/default": "BaselineAdminNetworkPolicy default",
		"egressfirewall/demo/default":        "EgressFirewall demo/default",
		"egressip/team-a":                    "EgressIP team-a",
		"service/demo/web":                   "Service demo/web",
		"gateway/n1":                         "NodeNetwork n1",
		"":                                   "foreign row ACL x",
	} {
		if got := objectOf(Row{Table: "ACL", Name: "x", Owner: owner}).String(); got != want {
			t.Errorf("unit %q is %q, want %q", owner, got, want)
		}
	}
}

func TestVerdictIsOneLine(t *testing.T) {
	policy := Object{Kind: "NetworkPolicy", Namespace: "demo", Name: "deny"}
	for _, test := range []struct {
		verdict Verdict
		want    string
	}{
		{Verdict{Result: Allowed}, "allowed"},
		{Verdict{Result: Dropped, By: policy, Why: "NetworkPolicy demo/deny, which isolates web-0 for ingress"},
			"dropped by NetworkPolicy demo/deny, which isolates web-0 for ingress"},
		{Verdict{Result: Dropped, By: policy, Why: "NetworkPolicy demo/deny and NetworkPolicy demo/web, which isolate web-0"},
			"dropped by NetworkPolicy demo/deny and NetworkPolicy demo/web, which isolate web-0"},
		{Verdict{Result: Allowed, By: policy, Why: "NetworkPolicy demo/deny allows it by ingress[0]"},
			"allowed: NetworkPolicy demo/deny allows it by ingress[0]"},
		{Verdict{Result: Unknown, Why: "node n1 has no link"}, "unknown: node n1 has no link"},
	} {
		if got := test.verdict.Line(); got != test.want {
			t.Errorf("%+v is %q, want %q", test.verdict, got, test.want)
		}
	}
}

// A port that the southbound database does not have leads to the command that says why.
func TestMissingPort(t *testing.T) {
	v := verdictOn(Question{}, Leg{}, path{missing: "demo_web-0"})
	if v.Result != Dropped || v.By.String() != "Pod demo/web-0" {
		t.Errorf("verdict %+v", v)
	}
}

// A policy that drops a packet whose source was translated is said to see the translated address.
func TestAPolicySeesTheTranslatedSource(t *testing.T) {
	drop := Step{Stage: "ls_out_acl_eval", Outport: "demo_web-0"}
	of := Row{Table: "ACL", Owner: "networkpolicy/demo/web", Rule: "ingress" + Isolation}
	for want, steps := range map[string][]Step{
		"no rule allows outside TCP port 8080":                              {drop},
		"no rule allows outside with the address 100.64.0.2, TCP port 8080": {{Translated: "100.64.0.2", Source: true}, drop},
	} {
		j := judge{Question: Question{Protocol: TCP, From: End{Kind: Outside}, To: End{Kind: Pod, Namespace: "demo", Name: "web-0"}},
			leg: Leg{Packet: Packet{DestinationPort: 8080}}, Trace: Trace{Steps: steps}}
		if got := j.byPolicy(drop, of).Line(); !strings.HasSuffix(got, want) {
			t.Errorf("the verdict is %q, want %q", got, want)
		}
	}
}
