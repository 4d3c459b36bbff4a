package topology

import (
	"fmt"
	"net/netip"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
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

// EgressFirewall holds the facts for EgressFirewallUnit.
type EgressFirewall struct {
	Namespace string
	// Clusters are the networks of pods, which no rule applies to.
	Clusters []netip.Prefix
	// Rules are in order. The first matching rule decides.
	Rules []EgressRule
	// Logging selects what is logged and counted.
	Logging networkv1alpha1.ACLLogging
}

// EgressRule is a rule of a firewall.
type EgressRule struct {
	Deny bool
	// Networks are the destinations of the rule, or Set is their address set. If both are empty, the rule applies to
	// all destinations.
	Networks []netip.Prefix
	Set      unit.Key
	// Ports are the ports that the rule applies to. Empty means all ports and all protocols.
	Ports []ovnexpr.Ports
	// Text is the rule in its author's notation.
	Text string
}

// EgressFirewallUnit returns a unit with the group of the namespace's pods and the ACLs of the rules. Pods join the
// group by their own units. An allowed packet passes to the policies of the following tiers, a denied packet is
// dropped.
//
// The last ACL allows everything that no rule matches. Without it, northd would not track connections, and rules
// would also apply to replies on connections from outside.
func EgressFirewallUnit(f EgressFirewall) unit.Unit {
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
	rules := f.deciding()
	priorities := prioritiesOf(rules)
	for i, rule := range rules {
		action := nbdb.ACLActionPass
		if rule.Deny {
			action = nbdb.ACLActionDrop
		}
		add(nbdb.ACL{Action: action, Tier: tierEgressFirewall, Priority: priorities[i], Log: true}, rule.match(), rule.Text)
	}
	add(nbdb.ACL{Action: nbdb.ACLActionAllowRelated, Tier: tierDefault}, ovnexpr.IP(), "no rule")
	return u
}

func (r EgressRule) match() ovnexpr.Match {
	to := ovnexpr.ToNetworks(r.Networks...)
	if r.Set != "" {
		to = ovnexpr.ToSets(addressSetName(r.Set, families[0]), addressSetName(r.Set, families[1]))
	}
	if to == (ovnexpr.Match{}) {
		to = ovnexpr.IP() // excludes ARP
	}
	return ovnexpr.And(to, ovnexpr.ToPorts(r.Ports...))
}

// deciding leaves out rules that match exactly the same as an earlier rule.
func (f EgressFirewall) deciding() (rules []EgressRule) {
	seen := map[string]bool{}
	for _, rule := range f.Rules {
		if match := rule.match().String(); !seen[match] {
			seen[match] = true
			rules = append(rules, rule)
		}
	}
	return rules
}

// prioritiesOf gives adjacent rules with the same action one priority, because their order has no effect. It counts
// from the last rule, so that an inserted rule moves earlier rules only if it adds an alternation of allow and deny.
func prioritiesOf(rules []EgressRule) []int {
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
