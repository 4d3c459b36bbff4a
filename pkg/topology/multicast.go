package topology

import (
	"fmt"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// tierMulticast decides which pods can exchange multicast packets. Policies of the following tiers can still deny them.
const tierMulticast = 0

// Priorities within tierMulticast. They are above the priorities of EgressFirewalls, which let all multicast
// packets pass.
const (
	membershipPriority    = 32703
	multicastPassPriority = 32702
	multicastDropPriority = 32701
)

// MulticastUnit returns a unit that lets the pods of a namespace exchange multicast packets. Its ACLs are on the group of
// all its pods, and name their addresses. On each node's switch, ACLs drop what no such ACL lets pass (NodeUnit).
//
// IGMP does not pass to the policies, which would deny the queries of OVN's switches: pods would be forgotten as
// receivers. The switch consumes the pods' reports, and its queries have no content. OVN does the same with MLD by itself.
func MulticastUnit(namespace string) unit.Unit {
	u := unit.Unit{Key: MulticastKey(namespace)}
	pods := facts.NamespacePods(namespace)
	group := podGroupName(PodGroupKey(pods))
	parent := podGroupRef(PodGroupKey(pods))
	add := func(side policySide, acl nbdb.ACL, match ovnexpr.Match, text string) {
		addMulticastACL(&u, parent, namespace, side, acl, ovnexpr.And(side.subject(group), match), text)
	}
	membership := nbdb.ACL{Action: nbdb.ACLActionAllow, Priority: membershipPriority}
	pass := nbdb.ACL{Action: nbdb.ACLActionPass, Priority: multicastPassPriority}
	add(egressSide, membership, ovnexpr.IGMP(), "multicast reports")
	add(egressSide, pass, ovnexpr.Multicast(), "multicast to others")
	add(ingressSide, membership, ovnexpr.IGMP(), "multicast queries")
	add(ingressSide, pass, ovnexpr.And(setsOf(ovnexpr.Source, pods), ovnexpr.Multicast()), "multicast from others")
	return u
}

// MulticastSelectors lists the group and the sets that a namespace's unit names.
func MulticastSelectors(namespace string) map[unit.Key]facts.PodSelector {
	pods := facts.NamespacePods(namespace)
	return map[unit.Key]facts.PodSelector{PodGroupKey(pods): pods, PodSetKey(pods): pods}
}

// snooping returns the configuration of a node's switch that delivers multicast packets to the receivers alone. The switch
// sends queries with the router's addresses. Without receivers packets go to the router only.
func snooping(n facts.Node) map[string]string {
	mac := gatewayMAC(n)
	config := map[string]string{"mcast_snoop": "true", "mcast_querier": "true", "mcast_eth_src": mac.String()}
	for _, gateway := range facts.Gateways(n.Subnets) {
		if !gateway.Is4() {
			config["mcast_ip6_src"] = ipam.LinkLocal(mac).String() // RFC 3810 §5.1.14
		} else if config["mcast_ip4_src"] == "" {
			config["mcast_ip4_src"] = gateway.String()
		}
	}
	return config
}

// addMulticastDrops drops multicast packets from and to everything on a node's switch but the router, which forwards
// packets of other nodes. What a namespace requests is let pass before (MulticastUnit). MLD and neighbour discovery pass
// whatever ACLs say.
func addMulticastDrops(u *unit.Unit, node string) {
	router := names.SwitchToRouter(node)
	drop := nbdb.ACL{Action: nbdb.ACLActionDrop, Priority: multicastDropPriority}
	pass := nbdb.ACL{Action: nbdb.ACLActionPass, Priority: multicastPassPriority}
	add := func(side policySide, port string) {
		of := switchRef(names.NodeSwitch(node))
		addMulticastACL(u, of, node, side, pass, ovnexpr.And(ovnexpr.OfPort(port), ovnexpr.Multicast()), "multicast of other nodes")
		addMulticastACL(u, of, node, side, drop, ovnexpr.Multicast(), "multicast not requested")
	}
	add(egressSide, ovnexpr.FromPort(router))
	add(ingressSide, ovnexpr.ToPort(router))
}

// addMulticastACL adds an ACL of a namespace or node to a port group or a switch.
func addMulticastACL(
	u *unit.Unit, parent unit.Ref, owner string, side policySide, acl nbdb.ACL, match ovnexpr.Match, text string,
) {
	acl.Tier, acl.Match, acl.Direction, acl.Options = tierMulticast, match.String(), side.direction, side.options
	acl.UUID = unit.UUID(nbdb.ACLTable, fmt.Sprintf("%s %s %s", u.Key, side.direction, acl.Match))
	acl.ExternalIDs = map[string]string{RuleKey: text}
	name := names.MulticastACL(owner, text)
	acl.Name = &name
	u.Rows = append(u.Rows, unit.Row{Model: &acl})
	u.Members = append(u.Members, unit.Membership{Parent: parent, Column: "acls", Element: acl.UUID})
}
