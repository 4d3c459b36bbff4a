package topology

import (
	"fmt"
	"net/netip"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// Tiers of ACLs. Those of a lower one come first; pass leaves the decision to the next.
const (
	tierEgressFirewall = 0
	// tierDefault is the last one.
	tierDefault = 3
)

// Priorities within tierEgressFirewall.
const (
	// insidePriority is that of what stays in the cluster: no rule is about it.
	insidePriority = 32000
	// lastRulesPriority is that of the last rules of a firewall.
	lastRulesPriority = 1000
)

// RuleKey is the external_ids key of an ACL that says what rule it is made from.
const RuleKey = "weft.dev/rule"

// linkLocal networks are not routed, so that nothing for them leaves the cluster. Of IPv4 they are: 169.254.169.254 is what clouds have
// secrets at.
var linkLocal = netip.MustParsePrefix("fe80::/10")

// EgressFirewall is what the ACLs of a namespace's firewall need to know.
type EgressFirewall struct {
	Namespace string
	// Clusters are the networks of pods, which no rule is about.
	Clusters []netip.Prefix
	// Rules are in order: the first that matches decides.
	Rules []EgressRule
	// Logging is what is logged and counted of it.
	Logging networkv1alpha1.ACLLogging
}

// EgressRule is a rule of a firewall.
type EgressRule struct {
	Deny bool
	// Networks are where it is about, or Set is the address set of where it is about; neither: everywhere.
	Networks []netip.Prefix
	Set      unit.Key
	// Ports are those that it is about; none: all, and all protocols.
	Ports []ovnexpr.Ports
	// Text is the rule as its author knows it.
	Text string
}

// EgressFirewallUnit wants the group of the namespace's pods, which are in it by their own units, and what the rules say of what they send:
// an allowed packet passes to the policies of the following tiers, a denied one is dropped.
//
// The last ACL allows what no rule is about. Without it, northd would have no reason to follow connections, and a rule would also be about
// the answers to connections from outside.
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
		if acl.Log { // where that is wanted
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
		to = ovnexpr.IP() // and no ARP
	}
	return ovnexpr.And(to, ovnexpr.ToPorts(r.Ports...))
}

// deciding leaves out the rules that are about exactly the same as one before them.
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

// prioritiesOf gives neighbours that do the same one priority, since their order means nothing, and counts from the last: a rule that comes
// in between moves those before it only where allowing and denying alternate anew.
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

// inNamespace is the membership of a pod's port in the group of its namespace, while there is a firewall that makes it.
func inNamespace(namespace, port string) unit.Membership {
	group := unit.Ref{Table: nbdb.PortGroupTable, UUID: unit.UUID(nbdb.PortGroupTable, names.NamespacePorts(namespace))}
	return unit.Membership{Parent: group, Column: "ports", Element: port, Optional: true}
}
