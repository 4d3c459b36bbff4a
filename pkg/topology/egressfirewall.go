package topology

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/facts"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// Tiers of ACLs. Lower tiers decide first. The action pass leaves the decision to the next tier.
const (
	tierEgressFirewall = 0
	// tierDefault is the last tier.
	tierDefault = 3
)

// Priorities within tierEgressFirewall.
const (
	// insidePriority is for traffic within the cluster, which no rule applies to.
	insidePriority = 32000
	// lastRulesPriority is for the last rules of a firewall.
	lastRulesPriority = 1000
)

// RuleKey is the external_ids key of an ACL that holds the text of its rule.
const RuleKey = "weft.dev/rule"

// linkLocal is not routed, so that packets to it never leave the cluster. The link-local network of IPv4 is routed:
// clouds serve secrets at 169.254.169.254.
var linkLocal = netip.MustParsePrefix("fe80::/10")

// EgressFirewallUnit returns a unit with the group of the namespace's pods and the ACLs of the rules. Pods join the
// group by their own units. An allowed packet passes to the policies of the following tiers, a denied packet is
// dropped.
//
// The last ACL allows everything that no rule matches. Without it, northd would not track connections, and rules
// would also apply to replies on connections from outside.
func EgressFirewallUnit(f facts.EgressFirewall) unit.Unit {
	group := names.NamespacePorts(f.Namespace)
	parent := unit.Ref{Table: nbdb.PortGroupTable, UUID: unit.UUID(nbdb.PortGroupTable, group)}
	u := unit.Unit{Key: EgressFirewallKey(f.Namespace), Rows: []unit.Row{{Model: &nbdb.PortGroup{UUID: parent.UUID, Name: group}}}}
	add := func(acl nbdb.ACL, match ovnexpr.Match, text string) {
		acl.Match = ovnexpr.And(ovnexpr.FromGroup(group), match).String()
		acl.UUID = unit.UUID(nbdb.ACLTable, fmt.Sprintf("%s %d %s", u.Key, acl.Tier, acl.Match))
		acl.Direction, acl.Options = nbdb.ACLDirectionFromLport, map[string]string{"apply-after-lb": "true"}
		acl.ExternalIDs = map[string]string{RuleKey: text}
		name := names.EgressFirewallACL(f.Namespace, text)
		acl.Name = &name
		if acl.Log { // if logging is enabled
			acl.Log = false
			addMeter(&u, logACL(f.Logging, u.Key, text, &acl))
		}
		u.Rows = append(u.Rows, unit.Row{Model: &acl})
		u.Members = append(u.Members, unit.Membership{Parent: parent, Column: "acls", Element: acl.UUID})
	}
	inside := ovnexpr.Or(ovnexpr.ToNetworks(append([]netip.Prefix{linkLocal}, f.Clusters...)...), ovnexpr.Multicast())
	add(nbdb.ACL{Action: nbdb.ACLActionPass, Tier: tierEgressFirewall, Priority: insidePriority}, inside, "inside the cluster")
	rules := deciding(f)
	priorities := prioritiesOf(rules)
	for i, rule := range rules {
		action := nbdb.ACLActionPass
		if rule.Deny {
			action = nbdb.ACLActionDrop
		}
		add(nbdb.ACL{Action: action, Tier: tierEgressFirewall, Priority: priorities[i], Log: true}, matchOf(rule), rule.Text)
	}
	add(nbdb.ACL{Action: nbdb.ACLActionAllowRelated, Tier: tierDefault}, ovnexpr.IP(), "no rule")
	return u
}

func matchOf(r facts.EgressRule) ovnexpr.Match {
	to := ovnexpr.ToNetworks(r.Networks...)
	if set := setOf(r); set != "" {
		to = ovnexpr.ToSets(addressSetName(set, families[0]), addressSetName(set, families[1]))
	}
	if to == (ovnexpr.Match{}) {
		to = ovnexpr.IP() // excludes ARP
	}
	return ovnexpr.And(to, ovnexpr.ToPorts(r.Ports...))
}

// setOf returns the unit of the address set of a rule, or "".
func setOf(r facts.EgressRule) unit.Key {
	switch {
	case r.DNSName != "":
		return DNSKey(r.DNSName)
	case r.Nodes != nil:
		return NodesKey(selectorHash(r.Nodes.String()))
	}
	return ""
}

// deciding leaves out rules that match exactly the same as an earlier rule.
func deciding(f facts.EgressFirewall) (rules []facts.EgressRule) {
	seen := map[string]bool{}
	for _, rule := range f.Rules {
		if match := matchOf(rule).String(); !seen[match] {
			seen[match] = true
			rules = append(rules, rule)
		}
	}
	return rules
}

// prioritiesOf gives adjacent rules with the same action one priority, because their order has no effect. It counts
// from the last rule, so that an inserted rule moves earlier rules only if it adds an alternation of allow and deny.
func prioritiesOf(rules []facts.EgressRule) []int {
	priorities := make([]int, len(rules))
	for i := len(rules) - 1; i >= 0; i-- {
		priorities[i] = lastRulesPriority
		if i+1 < len(rules) {
			priorities[i] = priorities[i+1]
			if rules[i].Deny != rules[i+1].Deny {
				priorities[i]++
			}
		}
	}
	return priorities
}

// inNamespace returns the membership of a pod's port in the group of its namespace, which exists while the namespace
// has a firewall.
func inNamespace(namespace, port string) unit.Membership {
	group := unit.Ref{Table: nbdb.PortGroupTable, UUID: unit.UUID(nbdb.PortGroupTable, names.NamespacePorts(namespace))}
	return unit.Membership{Parent: group, Column: "ports", Element: port, Optional: true}
}

// EgressFirewallSets lists the address sets that a firewall needs, without duplicates.
func EgressFirewallSets(f facts.EgressFirewall) (keys []unit.Key) {
	for _, rule := range f.Rules {
		if set := setOf(rule); set != "" && !slices.Contains(keys, set) {
			keys = append(keys, set)
		}
	}
	return keys
}

// SelectorOf returns the selector of a set of nodes among a firewall's rules, or nil.
func SelectorOf(f facts.EgressFirewall, set unit.Key) labels.Selector {
	for _, rule := range f.Rules {
		if rule.Nodes != nil && setOf(rule) == set {
			return rule.Nodes
		}
	}
	return nil
}
