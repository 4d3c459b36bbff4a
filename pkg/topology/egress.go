package topology

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// Priorities of what EgressIPs need. Those on the cluster router are below what pods have for their own node.
const (
	insidePolicy = 102 // what stays inside, and replies, go where they always went
	egressPolicy = 100
	replyRule    = 103
	insideRule   = 104
	// Among the translations with a match, which come before those without.
	insideNAT = 200
	egressNAT = 100
)

const (
	// replyMark is the packet mark of what pods with an EgressIP answer to connections that others opened.
	replyMark = 42
	// trackingACL and trackingTier are behind everything that decides: the rule only has conntrack see connections that nobody else decided on.
	trackingACL, trackingTier = 1, 3
)

// CarriedAddress is an egress IP on a node that carries it.
type CarriedAddress struct {
	Address netip.Addr
	Node    string
	// Join are the addresses of the node's gateway router on the join switch, Clusters the CIDRs of all pods.
	Join, Clusters []netip.Prefix
	// Own is the router's own address of the family, not valid where pods keep theirs: what goes to other nodes has it as always.
	Own netip.Addr
}

// EgressIP is what the rows of an EgressIP need to know.
type EgressIP struct {
	Name string
	// Addresses are all that it has, Carried those that a node carries.
	Addresses []netip.Addr
	Carried   []CarriedAddress
	// Drop drops what would leave while no node carries an address of the family.
	Drop bool
}

// EgressIPUnit wants the sets of the pods that have the EgressIP, which the pods join themselves, their way to the nodes that carry its
// addresses, and the translation there. When a node takes over from another, two policies name another router, and each translation goes from one
// router to the other, however many pods there are.
func EgressIPUnit(e EgressIP) unit.Unit {
	u := unit.Unit{Key: EgressIPKey(e.Name)}
	for _, like := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if slices.ContainsFunc(e.Addresses, func(a netip.Addr) bool { return a.Is4() == like.Is4() }) {
			e.addFamily(&u, like)
		}
	}
	for _, c := range e.Carried {
		e.addTranslation(&u, c)
	}
	return u
}

// addFamily wants the set and the policy of like's family.
func (e EgressIP) addFamily(u *unit.Unit, like netip.Addr) {
	set := addressSet(names.EgressIPPods(e.Name, names.Family(like)))
	u.Rows = append(u.Rows, unit.Row{Model: set})
	policy := &nbdb.LogicalRouterPolicy{UUID: unit.UUID(nbdb.LogicalRouterPolicyTable, "egressip "+e.Name+" "+names.Family(like)),
		Priority: egressPolicy, Match: ovnexpr.FromSet(set.Name, like), Action: nbdb.LogicalRouterPolicyActionReroute, Nexthops: e.routers(like)}
	if len(policy.Nexthops) == 0 {
		if !e.Drop {
			return
		}
		policy.Action = nbdb.LogicalRouterPolicyActionDrop
	}
	addPolicy(u, policy)
}

// routers are the join addresses of the routers that carry addresses of like's family.
func (e EgressIP) routers(like netip.Addr) (hops []string) {
	for _, c := range e.Carried {
		for _, join := range c.Join {
			if c.Address.Is4() == like.Is4() && join.Addr().Is4() == like.Is4() {
				hops = append(hops, join.Addr().String())
			}
		}
	}
	slices.Sort(hops)
	return slices.Compact(hops)
}

// addTranslation wants the address as the source of what the pods send through the router that carries it.
func (e EgressIP) addTranslation(u *unit.Unit, c CarriedAddress) {
	for _, cluster := range c.Clusters {
		if cluster.Addr().Is4() != c.Address.Is4() {
			continue
		}
		family := names.Family(c.Address)
		pods, name := names.EgressIPPods(e.Name, family), "egressip "+e.Name+" "+c.Address.String()+" "+cluster.String()
		nat := &nbdb.NAT{UUID: unit.UUID(nbdb.NATTable, name), Type: nbdb.NATTypeSNAT,
			ExternalIP: c.Address.String(), LogicalIP: cluster.String(), Priority: egressNAT, Match: ovnexpr.FromSet(pods, c.Address)}
		addNAT(u, c.Node, nat)
		if c.Own.IsValid() {
			addNAT(u, c.Node, &nbdb.NAT{UUID: unit.UUID(nbdb.NATTable, name+" inside"), Type: nbdb.NATTypeSNAT, ExternalIP: c.Own.String(),
				LogicalIP: cluster.String(), Priority: insideNAT, Match: ovnexpr.SetToSet(pods, names.Inside(family), c.Address)})
		}
	}
}

func addNAT(u *unit.Unit, node string, nat *nbdb.NAT) {
	u.Rows = append(u.Rows, unit.Row{Model: nat})
	u.Members = append(u.Members, unit.Membership{Parent: routerRef(names.GatewayRouter(node)), Column: "nat", Element: nat.UUID})
}

// addEgress lets the pod join the set of its EgressIP, and the group of all pods that have one.
func (p Pod) addEgress(u *unit.Unit, port *nbdb.LogicalSwitchPort) {
	if p.EgressIP == "" {
		return
	}
	u.Members = append(u.Members, unit.Membership{Parent: portGroupRef(names.EgressPods), Column: "ports", Element: port.UUID, Optional: true})
	for _, address := range p.Addresses {
		u.Members = append(u.Members, unit.Membership{Parent: addressSetRef(names.EgressIPPods(p.EgressIP, names.Family(address))),
			Column: "addresses", Element: address.String(), Optional: true})
	}
}

// addEgress wants what all EgressIPs have in common: what stays inside goes as always, and so do replies, to which nodes put a mark.
func (n Network) addEgress(u *unit.Unit) {
	for _, like := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		inside := addressSet(names.Inside(names.Family(like)))
		u.Rows = append(u.Rows, unit.Row{Model: inside})
		for _, network := range slices.Concat(n.Clusters, n.Join) {
			if network.Addr().Is4() == like.Is4() {
				u.Members = append(u.Members, unit.Membership{Parent: addressSetRef(inside.Name), Column: "addresses", Element: network.Masked().String()})
			}
		}
		addPolicy(u, &nbdb.LogicalRouterPolicy{UUID: unit.UUID(nbdb.LogicalRouterPolicyTable, inside.Name), Priority: insidePolicy,
			Match: ovnexpr.ToSet(inside.Name, like), Action: nbdb.LogicalRouterPolicyActionAllow})
	}
	addPolicy(u, &nbdb.LogicalRouterPolicy{UUID: unit.UUID(nbdb.LogicalRouterPolicyTable, "replies"), Priority: insidePolicy,
		Match: ovnexpr.Marked(strconv.Itoa(replyMark)), Action: nbdb.LogicalRouterPolicyActionAllow})
	group := &nbdb.PortGroup{UUID: portGroupRef(names.EgressPods).UUID, Name: names.EgressPods}
	tracking := &nbdb.ACL{UUID: unit.UUID(nbdb.ACLTable, names.EgressPods), Direction: nbdb.ACLDirectionToLport, Match: ovnexpr.ToGroup(names.EgressPods),
		Action: nbdb.ACLActionAllowRelated, Priority: trackingACL, Tier: trackingTier}
	u.Rows = append(u.Rows, unit.Row{Model: group}, unit.Row{Model: tracking})
	u.Members = append(u.Members, unit.Membership{Parent: portGroupRef(names.EgressPods), Column: "acls", Element: tracking.UUID})
}

// addReplyMark marks on a node's switch what pods with an EgressIP reply to others: it has to go back the way that the connection came. What stays
// inside has no mark: Open vSwitch's own tunnels, on the userspace datapath, would look for a route of that mark.
func addReplyMark(u *unit.Unit, node string) {
	rules := []*nbdb.QoS{{UUID: unit.UUID(nbdb.QoSTable, node+" replies"), Priority: replyRule, Match: ovnexpr.Replies(names.EgressPods),
		Action: map[string]int{nbdb.QoSActionMark: replyMark}}}
	for _, like := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		set := names.Inside(names.Family(like))
		rules = append(rules, &nbdb.QoS{UUID: unit.UUID(nbdb.QoSTable, node+" replies "+set), Priority: insideRule,
			Match: ovnexpr.RepliesTo(names.EgressPods, set, like), Action: map[string]int{nbdb.QoSActionMark: 0}})
	}
	for _, rule := range rules {
		rule.Direction = nbdb.QoSDirectionFromLport
		u.Rows = append(u.Rows, unit.Row{Model: rule})
		u.Members = append(u.Members, unit.Membership{Parent: switchRef(names.NodeSwitch(node)), Column: "qos_rules", Element: rule.UUID})
	}
}

func addPolicy(u *unit.Unit, policy *nbdb.LogicalRouterPolicy) {
	u.Rows = append(u.Rows, unit.Row{Model: policy})
	u.Members = append(u.Members, unit.Membership{Parent: routerRef(names.ClusterRouter), Column: "policies", Element: policy.UUID})
}

func addressSet(name string) *nbdb.AddressSet {
	return &nbdb.AddressSet{UUID: addressSetRef(name).UUID, Name: name}
}

func addressSetRef(name string) unit.Ref {
	return unit.Ref{Table: nbdb.AddressSetTable, UUID: unit.UUID(nbdb.AddressSetTable, name)}
}

func portGroupRef(name string) unit.Ref {
	return unit.Ref{Table: nbdb.PortGroupTable, UUID: unit.UUID(nbdb.PortGroupTable, name)}
}
