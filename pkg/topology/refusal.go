package topology

import (
	"net/netip"
	"slices"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	// refusalPolicy is the priority of the policies that send unbalanced packets to their refusal, or on gateway routers drop
	// them. It is the highest of all policies.
	refusalPolicy = 1005
	// refusalACL is the priority of the ACL of the join switch that refuses. The ACLs of local VIPs precede it.
	refusalACL = 1000
)

// addRefusal refuses packets that still have a cluster IP as their destination when they reach the cluster router,
// because no port of the service took them. TCP gets a reset and every other protocol an ICMP message, as from
// kube-proxy. Without it, such packets leave the cluster by the default route.
//
//	node's switch: no balancer ─▶ cluster router: policy ─▶ join switch: ACL reject ─▶ back to the sender
//
// The next hop is a port of the join switch without a chassis, at the address of the network itself, which no node
// has. The ACL is not on the nodes' switches: with any ACL there, OVN drops packets that conntrack considers invalid
// for all pods, with or without a policy.
func addRefusal(u *unit.Unit, n facts.Network) {
	join, nowhere := switchRef(names.JoinSwitch), make([]netip.Addr, 0, len(n.Join))
	for _, network := range n.Join {
		nowhere = append(nowhere, network.Masked().Addr())
	}
	mac := ipam.MAC(nowhere)
	port := &nbdb.LogicalSwitchPort{
		UUID: switchPortUUID(names.RefusalPort), Name: names.RefusalPort, Options: map[string]string{requestedTunnelKey: key(refusalKey)},
		Addresses: []string{ovnexpr.PortAddress{MAC: mac, Addresses: nowhere}.String()},
	}
	acl := &nbdb.ACL{
		UUID: unit.UUID(nbdb.ACLTable, names.RefusalPort), Direction: nbdb.ACLDirectionFromLport, Priority: refusalACL,
		Match: ovnexpr.ToMAC(mac), Action: nbdb.ACLActionReject, ExternalIDs: map[string]string{RuleKey: "no port of the service"},
	}
	u.Rows = append(u.Rows, unit.Row{Model: port}, unit.Row{Model: acl})
	u.Members = append(u.Members, unit.Membership{Parent: join, Column: "ports", Element: port.UUID},
		unit.Membership{Parent: join, Column: "acls", Element: acl.UUID})
	for _, like := range families {
		set := addressSet(names.ClusterIPs(names.Family(like)))
		u.Rows = append(u.Rows, unit.Row{Model: set})
		for _, hop := range nowhere {
			if hop.Is4() == like.Is4() {
				addPolicy(u, &nbdb.LogicalRouterPolicy{UUID: unit.UUID(nbdb.LogicalRouterPolicyTable, set.Name), Priority: refusalPolicy,
					Match: ovnexpr.ToSet(set.Name, like), Action: nbdb.LogicalRouterPolicyActionReroute, Nexthops: []string{hop.String()}})
			}
		}
	}
}

// refuseOthers makes cluster IPs refuse packets that no load balancer takes. An address that is not in the set, such
// as that of a service that is not in the database yet, refuses nothing, so that the client retries.
func refuseOthers(clusterIPs []netip.Addr) (members []unit.Membership) {
	for _, address := range clusterIPs {
		set := addressSetRef(names.ClusterIPs(names.Family(address)))
		members = append(members, unit.Membership{Parent: set, Column: "addresses", Element: address.String()})
	}
	return members
}

// dropUnbalanced makes a gateway router drop packets from outside to cluster IPs that no load balancer takes: to ports without a
// service, and to local VIPs without a backend on the node. Without it, they leave again by the default route.
func dropUnbalanced(u *unit.Unit, router string, networks []netip.Prefix) {
	for _, like := range families {
		if slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Addr().Is4() == like.Is4() }) {
			set := names.ClusterIPs(names.Family(like))
			addPolicyTo(u, router, &nbdb.LogicalRouterPolicy{UUID: unit.UUID(nbdb.LogicalRouterPolicyTable, router+" "+set),
				Priority: refusalPolicy, Match: ovnexpr.ToSet(set, like), Action: nbdb.LogicalRouterPolicyActionDrop})
		}
	}
}
