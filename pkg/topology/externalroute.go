package topology

import (
	"net/netip"
	"slices"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// routedNAT is the priority of the node's translation while it leaves out pods with routers of their own. Every other translation
// with a match precedes it.
const routedNAT = 10

// routedPolicy is the priority of the policies for packets of such pods to nodes: behind those for their own node.
const routedPolicy = managementPolicy - 1

// Intervals of BFD, in ms, and the number of lost packets after which a router counts as down: 1.5 s.
const bfdInterval, bfdMultiplier = 500, 3

// symmetricReply makes replies return to the router from which their connection came (ovn-nb(5), Logical_Router_Static_Route).
const symmetricReply = "ecmp_symmetric_reply"

// addNextHops adds the pod's routes to routers of its own on the gateway router of its node, and leaves the pod out of the node's
// translation. The UUIDs of the rows do not depend on the pod, as for floating addresses.
func (p Pod) addNextHops(u *unit.Unit, port *nbdb.LogicalSwitchPort) {
	router := names.GatewayRouter(p.Node)
	var routed, watched []netip.Addr
	for _, address := range p.Addresses {
		from := len(u.Rows)
		for _, hop := range p.NextHops {
			if hop.Address.Is4() != address.Is4() {
				continue
			}
			outside, policy := names.RouterToExternal(router), nbdb.LogicalRouterStaticRoutePolicySrcIP
			route := &nbdb.LogicalRouterStaticRoute{UUID: externalRouteUUID(p.Node, address, hop.Address),
				IPPrefix: netip.PrefixFrom(address, address.BitLen()).String(), Nexthop: hop.Address.String(), Policy: &policy,
				OutputPort: &outside, Options: map[string]string{symmetricReply: "true"}}
			u.Rows = append(u.Rows, unit.Row{Model: route})
			u.Members = append(u.Members, unit.Membership{Parent: routerRef(router), Column: "static_routes", Element: route.UUID,
				Optional: true})
			if hop.BFD {
				watched = append(watched, hop.Address)
			}
		}
		if len(u.Rows) > from {
			routed = append(routed, address)
			for _, set := range []string{names.Routed(p.Node, names.Family(address)), names.AllRouted(names.Family(address))} {
				u.Members = append(u.Members, unit.Membership{Parent: addressSetRef(set), Column: "addresses", Element: address.String(),
					Optional: true})
			}
		}
	}
	for key, addresses := range map[string][]netip.Addr{ovnexpr.RoutedKey: routed, ovnexpr.WatchedKey: watched} {
		if len(addresses) > 0 {
			port.ExternalIDs[key] = ovnexpr.JoinAddresses(addresses)
		}
	}
}

// IsExternal reports whether a route leads to a router of a pod's own.
func IsExternal(route *nbdb.LogicalRouterStaticRoute) bool {
	return route.Options[symmetricReply] != ""
}

func externalRouteUUID(node string, address, hop netip.Addr) string {
	return unit.UUID(nbdb.LogicalRouterStaticRouteTable, "external "+node+" "+address.String()+" "+hop.String())
}

// addSessions adds BFD sessions with the watched routers of the node's pods. Each route to one of them names the session from the
// transaction on that makes the route, so that neither waits for the other. They are in the unit of the router's port, because
// ovn-northd 25.03 crashes on a session whose port does not exist.
func (g gateway) addSessions(u *unit.Unit) {
	outside, made := names.RouterToExternal(names.GatewayRouter(g.Node.Name)), map[netip.Addr]bool{}
	for _, pod := range g.RoutedPods {
		for _, hop := range pod.NextHops {
			if !hop.BFD {
				continue
			}
			session := unit.UUID(nbdb.BFDTable, outside+" "+hop.Address.String())
			if !made[hop.Address] {
				made[hop.Address] = true
				u.Rows = append(u.Rows, unit.Row{Model: &nbdb.BFD{UUID: session, LogicalPort: outside, DstIP: hop.Address.String(),
					MinTx: new(bfdInterval), MinRx: new(bfdInterval), DetectMult: new(bfdMultiplier)}})
			}
			for _, address := range pod.Addresses {
				if address.Is4() == hop.Address.Is4() {
					u.Members = append(u.Members, unit.Membership{Optional: true, Column: "bfd", Element: session, Parent: unit.Ref{
						Table: nbdb.LogicalRouterStaticRouteTable, UUID: externalRouteUUID(g.Node.Name, address, hop.Address)}})
				}
			}
		}
	}
}

// addAllRouted adds the sets of all pods with routers of their own.
func addAllRouted(u *unit.Unit) {
	for _, like := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		u.Rows = append(u.Rows, unit.Row{Model: addressSet(names.AllRouted(names.Family(like)))})
	}
}

// addReturn sends packets of pods with routers of their own, for this node, through its management port. The routers need not know the
// nodes, and the node sees the pod's address where its answers go. Ordinary pods leave translated by their own node.
func (g gateway) addReturn(u *unit.Unit) {
	for _, address := range g.HostAddresses {
		for _, hop := range facts.ManagementAddresses(g.Node.Subnets) {
			if hop.Is4() == address.Is4() {
				addPolicy(u, &nbdb.LogicalRouterPolicy{UUID: unit.UUID(nbdb.LogicalRouterPolicyTable, g.Node.Name+" routed "+address.String()),
					Priority: routedPolicy, Match: ovnexpr.FromSetTo(names.AllRouted(names.Family(address)), address),
					Action: nbdb.LogicalRouterPolicyActionReroute, Nexthops: []string{hop.String()}})
				break
			}
		}
	}
}

// addRouted adds the sets of the node's pods with routers of their own, which its translation leaves out.
func (g gateway) addRouted(u *unit.Unit) {
	for _, row := range u.Rows {
		nat, ok := row.Model.(*nbdb.NAT)
		if !ok {
			continue
		}
		if inside, err := netip.ParsePrefix(nat.LogicalIP); err == nil && slices.Contains(g.Clusters, inside) {
			nat.Match = ovnexpr.NotFromSet(names.Routed(g.Node.Name, names.Family(inside.Addr())), inside.Addr())
			nat.Priority = routedNAT
		}
	}
	for _, like := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if slices.ContainsFunc(g.Addresses, func(outside netip.Prefix) bool { return outside.Addr().Is4() == like.Is4() }) {
			u.Rows = append(u.Rows, unit.Row{Model: addressSet(names.Routed(g.Node.Name, names.Family(like)))})
		}
	}
}
