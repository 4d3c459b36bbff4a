package topology

import (
	"slices"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// Tiers of cluster-wide policies: before NetworkPolicies, and behind them.
const (
	tierAdmin    = 1
	tierBaseline = tierDefault
)

// Priorities within these tiers, of OVN's 32768. Each priority of a policy has a range of ACL priorities for its
// rules.
const (
	// clusterPolicyLast is the last place of the last priority, above everything else in tierDefault.
	clusterPolicyLast = 1000
	// baselineAdminLast is the last place of the BaselineAdminNetworkPolicy, which is behind all
	// ClusterNetworkPolicies.
	baselineAdminLast = 100
)

// ClusterPolicyUnit returns a unit with a policy's ACLs on the port group of its subject, in one transaction. It
// waits for the group. Its sets must exist, as for NetworkPolicyUnit.
func ClusterPolicyUnit(p facts.ClusterPolicy) unit.Unit {
	name := func(text string) string { return names.ClusterPolicyACL(aclPrefix[p.Kind], p.Name, text) }
	b := policyBuilder{subject: p.Subject, name: name, unit: unit.Unit{Key: ClusterPolicyKey(p)}, logging: p.Logging}
	for _, side := range []struct {
		policySide
		rules []facts.ClusterPolicyRule
	}{{ingressSide, p.Ingress}, {egressSide, p.Egress}} {
		priorities := placePriorities(p, side.rules)
		for i, rule := range side.rules {
			b.addRule(side.policySide, nbdb.ACL{Action: aclActions[rule.Action], Tier: tierOf(p), Priority: priorities[i]}, rule.PolicyRule)
		}
	}
	if len(b.unit.Rows) > 0 {
		b.addPasses(tierOf(p))
		b.track()
	}
	return b.unit
}

// aclActions are OVN's names of actions.
var aclActions = map[facts.Action]nbdb.ACLAction{facts.Accept: nbdb.ACLActionAllowRelated, facts.Deny: nbdb.ACLActionDrop,
	facts.Pass: nbdb.ACLActionPass}

var aclPrefix = map[string]string{KindClusterNetworkPolicy: "CNP", KindAdminNetworkPolicy: "ANP", KindBaselineAdminNetworkPolicy: "BANP"}

func tierOf(p facts.ClusterPolicy) int {
	if p.Baseline {
		return tierBaseline
	}
	return tierAdmin
}

// placePriorities returns the ACL priorities of rules. Within one priority, ClusterNetworkPolicies have the first
// places and AdminNetworkPolicies the last.
func placePriorities(p facts.ClusterPolicy, rules []facts.ClusterPolicyRule) []int {
	places, used := p.Places(rules)
	first := clusterPolicyLast + (facts.LastPriority-p.Priority)*facts.PolicyPlaces
	switch p.Kind {
	case KindClusterNetworkPolicy:
		first += facts.PolicyPlaces - 1
	case KindAdminNetworkPolicy:
		first += used - 1
	case KindBaselineAdminNetworkPolicy:
		first = baselineAdminLast + used - 1
	}
	for i := range places {
		places[i] = first - places[i]
	}
	return places
}

// ClusterPolicySelectors returns the groups and sets that the policy's ACLs name, by their units.
func ClusterPolicySelectors(p facts.ClusterPolicy) map[unit.Key]facts.PodSelector {
	if len(p.Ingress)+len(p.Egress) == 0 {
		return nil
	}
	all := map[unit.Key]facts.PodSelector{PodGroupKey(p.Subject): p.Subject}
	group := func(s facts.PodSelector) { all[PodGroupKey(s)] = s }
	set := func(s facts.PodSelector) { all[PodSetKey(s)] = s }
	for _, rule := range p.Ingress {
		addSelectors(rule.PolicyRule, p.Subject, true, group, set)
	}
	for _, rule := range p.Egress {
		addSelectors(rule.PolicyRule, p.Subject, false, group, set)
	}
	return all
}

// ClusterPolicyNames lists the sets of DNS names that the policy's ACLs name, sorted. They must exist, as for
// NetworkPolicyUnit.
func ClusterPolicyNames(p facts.ClusterPolicy) (sets []unit.Key) {
	for _, rule := range p.Egress {
		for _, peer := range rule.Peers {
			for _, name := range peer.Domains {
				sets = append(sets, DNSKey(name))
			}
		}
	}
	slices.Sort(sets)
	return slices.Compact(sets)
}
