package topology

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// Tunnel keys between zones. The keys of the transit switch and of its ports are the same in every zone.
const (
	transitSwitchKey  = 3
	transitRouterKey  = 4
	routersKey        = 2 // of either end of the link between the cluster router and the transit router
	transitNodeKeys   = 16
	transitSenderKeys = 16400
)

// Priorities of the policies for packets that the transit router would send back to the cluster router. Without them, the routers would
// exchange such a packet until its TTL ends.
const (
	nowherePolicy = insidePolicy + 1 // to an address of no node
	backPolicy    = egressPolicy - 1 // to outside, by no EgressIP
)

// TransitUnit returns a unit with the switch that all zones share, the zone's router on it, the link of that router to
// the cluster router, and the port through which the zone sends to others. Packets of others come in through the port of
// their destination's node.
func TransitUnit(t facts.Transit) unit.Unit {
	u := unit.Unit{Key: TransitKey(), Rows: []unit.Row{
		{Model: &nbdb.LogicalSwitch{UUID: switchRef(names.TransitSwitch).UUID, Name: names.TransitSwitch,
			OtherConfig: map[string]string{requestedTunnelKey: key(transitSwitchKey), "interconn-ts": names.TransitSwitch}}},
		{Model: &nbdb.LogicalRouter{UUID: routerRef(names.TransitRouter).UUID, Name: names.TransitRouter, Options: map[string]string{
			requestedTunnelKey: key(transitRouterKey),
			// The router has many ports on one switch. Otherwise northd would make flows for each pair, although no port sends to
			// another.
			"dynamic_neigh_routers": "true", "always_learn_from_arp_request": "false"}}},
	}}
	addLink(&u, names.ClusterRouter, names.RouterToTransit, t.Near, names.TransitToRouter)
	addLink(&u, names.TransitRouter, names.TransitToRouter, t.Far, names.RouterToTransit)
	back := ovnexpr.FromPort(names.TransitToRouter) + " && " + ovnexpr.ToPort(names.TransitToRouter)
	addTransitPolicy(&u, "back", backPolicy, back, nbdb.LogicalRouterPolicyActionDrop)
	inside := slices.Concat(t.Clusters, t.Join)
	for i, near := range t.Near {
		for _, network := range inside {
			if network.Addr().Is4() == near.Addr().Is4() {
				addTransitRoute(&u, names.TransitRouter, network, near.Addr(), names.TransitToRouter)
			}
		}
		// Packets from another zone to an address outside leave by an egress IP of this zone.
		outside := netip.PrefixFrom(anyOf(near.Addr()), 0)
		addTransitRoute(&u, names.TransitRouter, outside, near.Addr(), names.TransitToRouter)
		// OVN drops a packet without a route before it evaluates policies. The cluster router has routes by source only for the zone's
		// own pods.
		addTransitRoute(&u, names.ClusterRouter, outside, t.Far[i].Addr(), names.RouterToTransit)
		set := names.Inside(names.Family(near.Addr()))
		to := ovnexpr.ToSet(set, near.Addr())
		addTransitPolicy(&u, set, insidePolicy, to, nbdb.LogicalRouterPolicyActionAllow)
		addTransitPolicy(&u, "back "+set, nowherePolicy, back+" && "+to, nbdb.LogicalRouterPolicyActionDrop)
	}
	addTransitPort(&u, names.TransitSender, ipam.Addresses(t.Senders), t.Senders, transitSenderKeys+t.Sender)
	return u
}

func anyOf(like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// TransitNodeUnit returns a unit with a node's port on the transit switch: for a node of the zone the port where packets
// come in, and for a node elsewhere a port that is bound to its chassis, and the routes to its pods and to its gateway router.
func TransitNodeUnit(n facts.TransitNode) unit.Unit {
	u := unit.Unit{Key: TransitNodeKey(n.Node.Name)}
	if !n.Elsewhere {
		var own []netip.Prefix // of one address, because northd resolves every node elsewhere for each port that could reach it
		for _, address := range n.Addresses {
			own = append(own, netip.PrefixFrom(address, address.BitLen()))
		}
		addTransitPort(&u, n.Node.Name, n.Addresses, own, transitNodeKeys+n.Node.ID)
		return u
	}
	name := names.TransitSwitchPort(n.Node.Name)
	var encaps []string
	for _, address := range n.Tunnels {
		encaps = append(encaps, "geneve "+address.String())
	}
	port := &nbdb.LogicalSwitchPort{UUID: unit.UUID(nbdb.LogicalSwitchPortTable, name+" elsewhere"), Name: name,
		Type:        names.RemotePort,
		Addresses:   []string{ovnexpr.PortAddress{MAC: transitMAC(n.Addresses), Addresses: n.Addresses}.String()},
		Options:     map[string]string{names.RequestedChassis: n.Node.Chassis, requestedTunnelKey: key(transitNodeKeys + n.Node.ID)},
		ExternalIDs: map[string]string{names.RemoteEncaps: strings.Join(encaps, ","), names.RemoteHostname: n.Node.Name}}
	u.Rows = append(u.Rows, unit.Row{Model: port})
	u.Members = append(u.Members, unit.Membership{Parent: switchRef(names.TransitSwitch), Column: "ports", Element: port.UUID})
	to := slices.Clone(n.Node.Subnets)
	for _, join := range n.Join {
		to = append(to, netip.PrefixFrom(join, join.BitLen()))
	}
	for _, network := range to {
		for _, hop := range n.Far {
			if hop.Is4() == network.Addr().Is4() {
				// A route to all pods would be less specific than the routes by source, which lead pods outside.
				addTransitRoute(&u, names.ClusterRouter, network, hop, names.RouterToTransit)
			}
		}
		for _, address := range n.Addresses {
			if address.Is4() == network.Addr().Is4() {
				addTransitRoute(&u, names.TransitRouter, network, address, names.RouterToTransitSwitch(names.TransitSender))
			}
		}
	}
	return u
}

// transitMAC returns the MAC of a port with these addresses on the transit switch.
func transitMAC(addresses []netip.Addr) net.HardwareAddr { return joinMAC(addresses) }

// addLink adds an end of the link between two routers.
func addLink(u *unit.Unit, router, name string, networks []netip.Prefix, peer string) {
	port := &nbdb.LogicalRouterPort{UUID: routerPortUUID(name), Name: name, MAC: joinMAC(ipam.Addresses(networks)).String(),
		Networks: textsOf(networks), Peer: &peer, Options: map[string]string{requestedTunnelKey: key(routersKey)}}
	u.Rows = append(u.Rows, unit.Row{Model: port})
	u.Members = append(u.Members, unit.Membership{Parent: routerRef(router), Column: "ports", Element: port.UUID})
}

// addTransitPort adds a port of the transit router, and its end on the transit switch.
func addTransitPort(u *unit.Unit, node string, addresses []netip.Addr, networks []netip.Prefix, tunnelKey int) {
	name := names.RouterToTransitSwitch(node)
	port := &nbdb.LogicalRouterPort{UUID: routerPortUUID(name), Name: name, MAC: joinMAC(addresses).String(), Networks: textsOf(networks),
		Options: map[string]string{requestedTunnelKey: key(tunnelKey)}}
	end := routerTypePort(names.TransitSwitchPort(node), name, tunnelKey)
	u.Rows = append(u.Rows, unit.Row{Model: port}, unit.Row{Model: end})
	u.Members = append(u.Members, unit.Membership{Parent: routerRef(names.TransitRouter), Column: "ports", Element: port.UUID},
		unit.Membership{Parent: switchRef(names.TransitSwitch), Column: "ports", Element: end.UUID})
}

func addTransitPolicy(u *unit.Unit, name string, priority int, match, action string) {
	addPolicyTo(u, names.TransitRouter, &nbdb.LogicalRouterPolicy{UUID: unit.UUID(nbdb.LogicalRouterPolicyTable, "transit "+name),
		Priority: priority, Match: match, Action: action})
}

func addTransitRoute(u *unit.Unit, router string, to netip.Prefix, hop netip.Addr, port string) {
	addRoute(u, router, &nbdb.LogicalRouterStaticRoute{IPPrefix: to.String(), Nexthop: hop.String(), OutputPort: &port})
}

// TransitKey is the key of TransitUnit.
func TransitKey() unit.Key { return unit.NewKey(KindTransit, "default") }

// TransitNodeKey is the key of a node's TransitNodeUnit.
func TransitNodeKey(node string) unit.Key { return unit.NewKey(KindTransitNode, node) }

// podsElsewhere names an address set that is never created. Its memberships only remember the addresses of a pod in another zone, because
// a selector may select the pod later.
var podsElsewhere = addressSetRef("weft_pods_elsewhere")

// PodElsewhereUnit returns the unit of a pod of another zone: its addresses in the sets that select it.
func PodElsewhereUnit(p Pod) unit.Unit {
	u := Elsewhere(PodUnit(p))
	for _, address := range p.Addresses {
		u.Members = append(u.Members, unit.Membership{Parent: podsElsewhere, Column: "addresses", Element: address.String(), Optional: true})
	}
	return u
}

// addressesElsewhere returns the addresses of a unit of PodElsewhereUnit.
func addressesElsewhere(u unit.Unit) (all []netip.Addr) {
	for _, m := range u.Members {
		if m.Parent != podsElsewhere {
			continue
		}
		if address, err := netip.ParseAddr(m.Element); err == nil {
			all = append(all, address)
		}
	}
	return all
}

// Elsewhere returns the part of a unit that zones need of a node or a pod elsewhere: its addresses in sets.
func Elsewhere(u unit.Unit) unit.Unit {
	part := unit.Unit{Key: u.Key}
	for _, m := range u.Members {
		if m.Parent.Table == nbdb.AddressSetTable {
			part.Members = append(part.Members, m)
		}
	}
	return part
}

// IsElsewhere reports whether a unit is such a part: it has elements only in address sets.
func IsElsewhere(u unit.Unit) bool {
	return len(u.Rows) == 0 && len(u.Members) > 0 &&
		!slices.ContainsFunc(u.Members, func(m unit.Membership) bool { return m.Parent.Table != nbdb.AddressSetTable })
}
