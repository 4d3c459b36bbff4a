package topology

import (
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
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
	clusterPolicyLast   = 1000
	lastClusterPriority = 1000
	clusterPolicyPlaces = 31
	// baselineAdminLast is the last place of the BaselineAdminNetworkPolicy, which is behind all
	// ClusterNetworkPolicies. baselineAdminPlaces is the number of rules that the API allows.
	baselineAdminLast   = 100
	baselineAdminPlaces = 100
)

// ClusterPolicy holds the facts for ClusterPolicyUnit.
type ClusterPolicy struct {
	// Kind is KindClusterNetworkPolicy, KindAdminNetworkPolicy or KindBaselineAdminNetworkPolicy.
	Kind, Name string
	// Baseline policies decide where no NetworkPolicy does. The others decide before NetworkPolicies.
	Baseline bool
	// Priority is 0 to 1000, and the lowest decides first. The BaselineAdminNetworkPolicy, of which at most one
	// exists, has no priority.
	Priority int
	// Subject selects the pods that the policy applies to.
	Subject PodSelector
	// Ingress and Egress are in order. The first matching rule decides.
	Ingress, Egress []ClusterPolicyRule
	// Logging selects what is logged and counted.
	Logging networkv1alpha1.ACLLogging
}

// ClusterPolicyRule applies an action to what a rule matches.
type ClusterPolicyRule struct {
	PolicyRule
	Action nbdb.ACLAction
}

// Key returns the unit of the policy.
func (p ClusterPolicy) Key() unit.Key { return unit.NewKey(p.Kind, p.Name) }

// ClusterPolicyUnit returns a unit with a policy's ACLs on the port group of its subject, in one transaction. It
// waits for the group. Its sets must exist, as for NetworkPolicyUnit.
func ClusterPolicyUnit(p ClusterPolicy) unit.Unit {
	name := func(text string) string { return names.ClusterPolicyACL(aclPrefix[p.Kind], p.Name, text) }
	b := policyBuilder{subject: p.Subject, name: name, unit: unit.Unit{Key: p.Key()}, logging: p.Logging}
	for _, side := range []struct {
		policySide
		rules []ClusterPolicyRule
	}{{ingressSide, p.Ingress}, {egressSide, p.Egress}} {
		priorities := p.priorities(side.rules)
		for i, rule := range side.rules {
			b.addRule(side.policySide, nbdb.ACL{Action: rule.Action, Tier: p.tier(), Priority: priorities[i]}, rule.PolicyRule)
		}
	}
	if len(b.unit.Rows) > 0 {
		b.track()
	}
	return b.unit
}

var aclPrefix = map[string]string{KindClusterNetworkPolicy: "CNP", KindAdminNetworkPolicy: "ANP", KindBaselineAdminNetworkPolicy: "BANP"}

func (p ClusterPolicy) tier() int {
	if p.Baseline {
		return tierBaseline
	}
	return tierAdmin
}

// priorities returns the ACL priorities of rules. Within one priority, ClusterNetworkPolicies have the first places
// and AdminNetworkPolicies the last.
func (p ClusterPolicy) priorities(rules []ClusterPolicyRule) []int {
	places, used := p.places(rules)
	first := clusterPolicyLast + (lastClusterPriority-p.Priority)*clusterPolicyPlaces
	switch p.Kind {
	case KindClusterNetworkPolicy:
		first += clusterPolicyPlaces - 1
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

// places returns the places of rules, from 0 for the first. Each rule has its own place or, if places are scarce,
// adjacent rules with the same action share one.
func (p ClusterPolicy) places(rules []ClusterPolicyRule) (places []int, used int) {
	for i, rule := range rules {
		if i > 0 && (len(rules) <= p.mostPlaces() || rule.Action != rules[i-1].Action) {
			used++
		}
		places = append(places, used)
	}
	return places, used + 1
}

func (p ClusterPolicy) mostPlaces() int {
	if p.Kind == KindBaselineAdminNetworkPolicy {
		return baselineAdminPlaces
	}
	return clusterPolicyPlaces
}

// Selectors returns the groups and sets that the policy's ACLs name, by their units.
func (p ClusterPolicy) Selectors() map[unit.Key]PodSelector {
	if len(p.Ingress)+len(p.Egress) == 0 {
		return nil
	}
	all := map[unit.Key]PodSelector{p.Subject.GroupKey(): p.Subject}
	group := func(s PodSelector) { all[s.GroupKey()] = s }
	set := func(s PodSelector) { all[s.SetKey()] = s }
	for _, rule := range p.Ingress {
		rule.selectors(p.Subject, true, group, set)
	}
	for _, rule := range p.Egress {
		rule.selectors(p.Subject, false, group, set)
	}
	return all
}
