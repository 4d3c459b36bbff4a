package trace

import (
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
