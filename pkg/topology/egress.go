package topology

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// Priorities of EgressIPs' rows. On the cluster router they are below that of the policies for traffic from pods to
// their own node.
const (
	insidePolicy  = 102 // traffic within the cluster, and replies, keep their usual route
	arrivedPolicy = 101 // packets from another zone leave here
	egressPolicy  = 100
	replyRule     = 103
	insideRule    = 104
	// Among the translations with a match, which precede those without.
	insideNAT = 200
	egressNAT = 100
)

const (
	// replyMark is the packet mark of a pod's replies on connections from outside, for pods with an EgressIP.
	replyMark = 42
	// trackingACL and trackingTier are behind all rules that decide. The ACL only makes conntrack see connections on
	// which no other rule decided.
	trackingACL, trackingTier = 1, 3
)

// egressIP computes the parts of EgressIPUnit.
type egressIP struct{ facts.EgressIP }

// EgressIPUnit returns a unit with the sets of the EgressIP's pods, the route to the nodes that carry its addresses,
// and the translation there. Pods join the sets by their own units. When another node takes over, two policies change
// their router, and each translation moves from one router to the other, however many pods there are.
func EgressIPUnit(read facts.EgressIP) unit.Unit {
	e := egressIP{read}
	u := unit.Unit{Key: EgressIPKey(e.Name)}
	for _, like := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if slices.ContainsFunc(e.Addresses, func(a netip.Addr) bool { return a.Is4() == like.Is4() }) {
			e.addFamily(&u, like)
		}
	}
	for _, c := range e.Carried {
		if !c.Elsewhere {
			e.addTranslation(&u, c)
		}
	}
	return u
}

// addFamily adds the set and the policy of like's family.
func (e egressIP) addFamily(u *unit.Unit, like netip.Addr) {
	set := addressSet(names.EgressIPPods(e.Name, names.Family(like)))
	u.Rows = append(u.Rows, unit.Row{Model: set})
	here := e.hops(like, false, func(c facts.CarriedAddress) []netip.Addr { return ipam.Addresses(c.Join) })
	far := e.hops(like, true, func(c facts.CarriedAddress) []netip.Addr { return c.Far })
	policy := &nbdb.LogicalRouterPolicy{UUID: unit.UUID(nbdb.LogicalRouterPolicyTable, "egressip "+e.Name+" "+names.Family(like)),
		Priority: egressPolicy, Match: ovnexpr.FromSet(set.Name, like), Action: nbdb.LogicalRouterPolicyActionReroute,
		Nexthops: slices.Concat(here, far)}
	if len(policy.Nexthops) == 0 {
		if !e.Drop {
			return
		}
		policy.Action = nbdb.LogicalRouterPolicyActionDrop
	}
	addPolicy(u, policy)
	if len(far) > 0 {
		e.addBetweenZones(u, like, policy.Match, here)
	}
}

// addBetweenZones leads the pods' packets from this zone to the nodes elsewhere. Packets from another zone leave by an address that
// is carried here. They never return, because each zone could choose a node of the other.
func (e egressIP) addBetweenZones(u *unit.Unit, like netip.Addr, match string, here []string) {
	row := func(what string) string {
		return unit.UUID(nbdb.LogicalRouterPolicyTable, what+" egressip "+e.Name+" "+names.Family(like))
	}
	addPolicyTo(u, names.TransitRouter, &nbdb.LogicalRouterPolicy{UUID: row("transit"), Priority: egressPolicy,
		Match: ovnexpr.FromPort(names.TransitToRouter) + " && " + match, Action: nbdb.LogicalRouterPolicyActionReroute,
		Nexthops: e.hops(like, true, func(c facts.CarriedAddress) []netip.Addr { return c.Transit })})
	arrived := &nbdb.LogicalRouterPolicy{UUID: row("arrived"), Priority: arrivedPolicy,
		Match: ovnexpr.FromPort(names.RouterToTransit) + " && " + match, Action: nbdb.LogicalRouterPolicyActionReroute, Nexthops: here}
	if len(here) == 0 {
		arrived.Action = nbdb.LogicalRouterPolicyActionDrop
	}
	addPolicy(u, arrived)
}

// hops returns the addresses of like's family by which the nodes here or elsewhere are reached that carry addresses of the family.
func (e egressIP) hops(like netip.Addr, elsewhere bool, by func(facts.CarriedAddress) []netip.Addr) (hops []string) {
	for _, c := range e.Carried {
		for _, hop := range by(c) {
			if c.Elsewhere == elsewhere && c.Address.Is4() == like.Is4() && hop.Is4() == like.Is4() {
				hops = append(hops, hop.String())
			}
		}
	}
	slices.Sort(hops)
	return slices.Compact(hops)
}

// addTranslation makes the address the source of the pods' packets on the router that carries it.
func (e egressIP) addTranslation(u *unit.Unit, c facts.CarriedAddress) {
	set := names.RouterAddresses
	if c.ByHost {
		set = names.EgressAddresses
	}
	u.Members = append(u.Members, inSet(set(c.Node, names.Family(c.Address)), c.Address))
	for _, cluster := range c.Clusters {
		if cluster.Addr().Is4() != c.Address.Is4() {
			continue
		}
		family := names.Family(c.Address)
		pods, name := names.EgressIPPods(e.Name, family), "egressip "+e.Name+" "+c.Address.String()+" "+cluster.String()
		nat := &nbdb.NAT{UUID: unit.UUID(nbdb.NATTable, name), Type: nbdb.NATTypeSNAT,
			ExternalIP: c.Address.String(), LogicalIP: cluster.String(), Priority: egressNAT, Match: ovnexpr.FromSet(pods, c.Address)}
		router := names.GatewayRouter(c.Node)
		if c.ByHost {
			router = names.EgressRouter(c.Node)
		}
		addNAT(u, router, nat)
		if c.Own.IsValid() {
			addNAT(u, router, &nbdb.NAT{UUID: unit.UUID(nbdb.NATTable, name+" inside"), Type: nbdb.NATTypeSNAT, ExternalIP: c.Own.String(),
				LogicalIP: cluster.String(), Priority: insideNAT, Match: ovnexpr.SetToSet(pods, names.Inside(family), c.Address)})
		}
	}
}

func addNAT(u *unit.Unit, router string, nat *nbdb.NAT) {
	u.Rows = append(u.Rows, unit.Row{Model: nat})
	u.Members = append(u.Members, unit.Membership{Parent: routerRef(router), Column: "nat", Element: nat.UUID})
}

// addEgress adds the pod to the set of its EgressIP, and to the group of all pods with an EgressIP.
func (p Pod) addEgress(u *unit.Unit, port *nbdb.LogicalSwitchPort) {
	if p.EgressIP == "" {
		return
	}
	u.Members = append(u.Members, unit.Membership{Parent: portGroupRef(names.EgressPods), Column: "ports",
		Element: port.UUID, Optional: true})
	for _, address := range p.Addresses {
		if p.translates(address) {
			continue
		}
		u.Members = append(u.Members, unit.Membership{Parent: addressSetRef(names.EgressIPPods(p.EgressIP, names.Family(address))),
			Column: "addresses", Element: address.String(), Optional: true})
	}
}

// addEgress adds the rows that all EgressIPs share. Traffic within the cluster, and replies, which nodes mark, keep
// their usual route.
func addEgress(u *unit.Unit, n facts.Network) {
	for _, like := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		inside := addressSet(names.Inside(names.Family(like)))
		u.Rows = append(u.Rows, unit.Row{Model: inside})
		for _, network := range slices.Concat(n.Clusters, n.Join) {
			if network.Addr().Is4() == like.Is4() {
				u.Members = append(u.Members, unit.Membership{Parent: addressSetRef(inside.Name), Column: "addresses",
					Element: network.Masked().String()})
			}
		}
		addPolicy(u, &nbdb.LogicalRouterPolicy{UUID: unit.UUID(nbdb.LogicalRouterPolicyTable, inside.Name), Priority: insidePolicy,
			Match: ovnexpr.ToSet(inside.Name, like), Action: nbdb.LogicalRouterPolicyActionAllow})
	}
	addPolicy(u, &nbdb.LogicalRouterPolicy{UUID: unit.UUID(nbdb.LogicalRouterPolicyTable, "replies"), Priority: insidePolicy,
		Match: ovnexpr.Marked(strconv.Itoa(replyMark)), Action: nbdb.LogicalRouterPolicyActionAllow})
	group := &nbdb.PortGroup{UUID: portGroupRef(names.EgressPods).UUID, Name: names.EgressPods}
	tracking := &nbdb.ACL{UUID: unit.UUID(nbdb.ACLTable, names.EgressPods), Direction: nbdb.ACLDirectionToLport,
		Match:  ovnexpr.ToGroup(names.EgressPods),
		Action: nbdb.ACLActionAllowRelated, Priority: trackingACL, Tier: trackingTier}
	u.Rows = append(u.Rows, unit.Row{Model: group}, unit.Row{Model: tracking})
	u.Members = append(u.Members, unit.Membership{Parent: portGroupRef(names.EgressPods), Column: "acls", Element: tracking.UUID})
}

// addReplyMark adds rules to a node's switch that mark replies of pods with an EgressIP, because a reply must return
// on the route of its connection. Traffic within the cluster gets no mark: on the userspace datapath, Open vSwitch's
// own tunnels would search a route for that mark.
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
	addPolicyTo(u, names.ClusterRouter, policy)
}

func addPolicyTo(u *unit.Unit, router string, policy *nbdb.LogicalRouterPolicy) {
	u.Rows = append(u.Rows, unit.Row{Model: policy})
	u.Members = append(u.Members, unit.Membership{Parent: routerRef(router), Column: "policies", Element: policy.UUID})
}

func addressSet(name string) *nbdb.AddressSet {
	return &nbdb.AddressSet{UUID: addressSetRef(name).UUID, Name: name}
}

func inSet(name string, address netip.Addr) unit.Membership {
	return unit.Membership{Parent: addressSetRef(name), Column: "addresses", Element: address.String()}
}

func addressSetRef(name string) unit.Ref {
	return unit.Ref{Table: nbdb.AddressSetTable, UUID: unit.UUID(nbdb.AddressSetTable, name)}
}

func portGroupRef(name string) unit.Ref {
	return unit.Ref{Table: nbdb.PortGroupTable, UUID: unit.UUID(nbdb.PortGroupTable, name)}
}
