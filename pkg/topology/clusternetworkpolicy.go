package topology

import (
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// Tiers of ClusterNetworkPolicies: before NetworkPolicies, and behind them.
const (
	tierAdmin    = 1
	tierBaseline = tierDefault
)

const (
	// clusterPolicyLast is the ACL priority of the last rule that a policy of the last priority may have, above what else is in tierDefault.
	clusterPolicyLast = 1000
	// lastClusterPriority and clusterPolicyRules are the API's limits. OVN's priorities, up to 32767, have room for all.
	lastClusterPriority = 1000
	clusterPolicyRules  = 25
)

// ClusterNetworkPolicy is what the ACLs of a policy of the whole cluster need to know.
type ClusterNetworkPolicy struct {
	Name string
	// Baseline policies decide where no NetworkPolicy does; others decide before these.
	Baseline bool
	// Priority is 0 to 1000; lower ones come first.
	Priority int
	// Subject are the pods that it is about.
	Subject PodSelector
	// Ingress and Egress are in order: the first rule that matches decides.
	Ingress, Egress []ClusterPolicyRule
	// Logging is what is logged and counted of it.
	Logging networkv1alpha1.ACLLogging
}

// ClusterPolicyRule does something with what a rule matches.
type ClusterPolicyRule struct {
	PolicyRule
	Action nbdb.ACLAction
}

// ClusterNetworkPolicyUnit wants a policy's ACLs on the port group of its subject, in one transaction. It waits for the group, and its sets must be
// there, as those of NetworkPolicyUnit.
func ClusterNetworkPolicyUnit(p ClusterNetworkPolicy) unit.Unit {
	b := policyBuilder{subject: p.Subject, name: func(text string) string { return names.ClusterPolicyACL(p.Name, text) }, unit: unit.Unit{Key: ClusterNetworkPolicyKey(p.Name)},
		logging: p.Logging}
	for _, side := range []struct {
		policySide
		rules []ClusterPolicyRule
	}{{ingressSide, p.Ingress}, {egressSide, p.Egress}} {
		for i, rule := range side.rules {
			b.addRule(side.policySide, nbdb.ACL{Action: rule.Action, Tier: p.tier(), Priority: p.priorityOf(i)}, rule.PolicyRule)
		}
	}
	if len(b.unit.Rows) > 0 {
		b.track()
	}
	return b.unit
}

func (p ClusterNetworkPolicy) tier() int {
	if p.Baseline {
		return tierBaseline
	}
	return tierAdmin
}

func (p ClusterNetworkPolicy) priorityOf(rule int) int {
	return clusterPolicyLast + (lastClusterPriority-p.Priority)*clusterPolicyRules + clusterPolicyRules - 1 - rule
}

// Selectors are the groups and sets that the policy's ACLs name, by their units.
func (p ClusterNetworkPolicy) Selectors() map[unit.Key]PodSelector {
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
