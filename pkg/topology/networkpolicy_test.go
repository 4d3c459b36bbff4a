package topology_test

import (
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

// A rule of many networks has several ACLs, because ovn-controller compares the networks of a match in pairs. Together they match what
// the rule does.
func TestARuleOfManyNetworks(t *testing.T) {
	web := facts.PodSelector{Namespace: "demo", Pods: labels.SelectorFromSet(labels.Set{"app": "web"})}
	var networks []netip.Prefix
	address := netip.MustParseAddr("192.0.2.0")
	for range 1000 {
		networks = append(networks, netip.PrefixFrom(address, 32))
		address = address.Next().Next()
	}
	rule := facts.PolicyRule{AllPorts: true, Text: "ingress[0]", Peers: []facts.PolicyPeer{{Pods: &web}, {Networks: networks}}}
	u := topology.NetworkPolicyUnit(facts.NetworkPolicy{Namespace: "demo", Name: "many", Subject: web,
		Ingress: &facts.PolicyRules{Rules: []facts.PolicyRule{rule}}})
	seen, pods := map[string]int{}, 0
	for _, row := range u.Rows {
		acl, ok := row.Model.(*nbdb.ACL)
		if !ok || acl.ExternalIDs[topology.RuleKey] != "ingress[0]" {
			continue
		}
		if strings.Count(acl.Match, ",") > 300 {
			t.Errorf("an ACL matches too many networks: %d characters", len(acl.Match))
		}
		if strings.Contains(acl.Match, "$") {
			pods++
		}
		for _, n := range networks {
			for _, end := range []string{",", "}"} {
				seen[n.Addr().String()] += strings.Count(acl.Match, " "+n.Addr().String()+end) + strings.Count(acl.Match, "{"+n.Addr().String()+end)
			}
		}
	}
	for _, n := range networks {
		if seen[n.Addr().String()] != 1 {
			t.Fatalf("%s is matched %d times", n, seen[n.Addr().String()])
		}
	}
	if pods != 1 {
		t.Errorf("%d ACLs match the pods", pods)
	}
}
