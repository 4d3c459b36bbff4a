package topology

import (
	"maps"
	"net"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	// managementPolicy is the priority of the policies that send pods' packets for their own node to its management
	// port.
	managementPolicy = 1004
	// neighbourAge is the time, in seconds, after which a gateway router resolves the MAC of a silent neighbour
	// again.
	neighbourAge = "300"
)

// gateway computes the parts of GatewayUnit.
type gateway struct{ facts.Gateway }

// GatewayUnit returns a unit with the node's connection to the outside: in Shared mode a gateway router with its
// external switch, in Local mode routes through the management port, and a gateway router for egress IPs if it may carry
// any. While the agent has not found any addresses, the unit only sets the node's own address.
func GatewayUnit(read facts.Gateway) unit.Unit {
	g := gateway{read}
	u := unit.Unit{Key: GatewayKey(g.Node.Name)}
	for _, address := range g.HostAddresses {
		u.Members = append(u.Members, unit.Membership{Parent: addressSetRef(names.Inside(names.Family(address))),
			Column: "addresses", Element: address.String()})
	}
	if g.Node.Chassis != "" {
		u.Members = append(u.Members, nodeAddresses(g.Node.Chassis, g.ServedAt())...)
	}
	if len(g.Addresses) == 0 {
		return u
	}
	g.addManagementPolicies(&u)
	if g.Routed {
		g.addReturn(&u)
	}
	if g.Mode == networkv1alpha1.GatewayLocal {
		g.addSourceRoutes(&u, facts.ManagementAddresses(g.Node.Subnets))
		if g.AnswersByHost() {
			g.addSets(&u, names.AnsweredAddresses)
		}
		if g.HasEgressRouter() {
			g.addEgressRouter(&u)
		}
		return u
	}
	if !g.HasRouter() {
		return u
	}
	g.addRouter(&u)
	g.addSets(&u, names.RouterAddresses)
	g.addExternalSwitch(&u)
	g.addSourceRoutes(&u, ipam.Addresses(g.Join))
	g.addRoutes(&u)
	discardNowhere(&u, names.GatewayRouter(g.Node.Name), g.Join)
	dropUnbalanced(&u, names.GatewayRouter(g.Node.Name), g.Join)
	g.addSNAT(&u)
	if g.Routed {
		g.addRouted(&u)
		g.addSessions(&u)
	}
	return u
}

// addSets adds the node's sets of both families, whose addresses other units add.
func (g gateway) addSets(u *unit.Unit, name func(node, family string) string) {
	for _, family := range []string{"IPv4", "IPv6"} {
		u.Rows = append(u.Rows, unit.Row{Model: addressSet(name(g.Node.Name, family))})
	}
}

// IsGatewayOf reports whether the rows of a node's gateway were computed for the ID and the subnets that the node has
// now. It checks only rows that depend on them. Some of the others may already belong to another node that has
// received the ID or a subnet.
func IsGatewayOf(rows []unit.Row, n facts.Node) bool {
	subnets, hops := textsOf(n.Subnets), facts.ManagementAddresses(n.Subnets)
	return !slices.ContainsFunc(rows, func(row unit.Row) bool {
		switch m := row.Model.(type) {
		case *nbdb.LogicalRouter:
			return m.Options[requestedTunnelKey] != key(gatewayKeys+n.ID)
		case *nbdb.LogicalSwitchPort: // the port of the join switch stays if another program deletes the router
			return m.Name == names.JoinToRouter(names.GatewayRouter(n.Name)) && m.Options[requestedTunnelKey] != key(joinToGatewayKeys+n.ID)
		case *nbdb.LogicalRouterStaticRoute:
			return m.Policy != nil && !slices.Contains(subnets, m.IPPrefix)
		case *nbdb.LogicalRouterPolicy:
			return slices.ContainsFunc(m.Nexthops, func(hop string) bool {
				return !slices.ContainsFunc(hops, func(a netip.Addr) bool { return a.String() == hop })
			})
		}
		return false
	})
}

// addRouter adds the gateway router and its link to the join switch.
func (g gateway) addRouter(u *unit.Unit) {
	g.addRouterOf(u, names.GatewayRouter(g.Node.Name), map[string]string{
		// Replies from a backend on another node must return through this router.
		"lb_force_snat_ip": "router_ip",
		// The host and OVN share an address. In one zone they do not choose the same port.
		"snat-ct-zone": "0",
	})
	addGroups(u, routerRef(names.GatewayRouter(g.Node.Name)), names.ClusterLoadBalancers, names.RouterLoadBalancers,
		names.NodeLoadBalancers(g.Node.Name))
}

// addRouterOf adds a router of the node's chassis with further options, and its link to the join switch.
func (g gateway) addRouterOf(u *unit.Unit, name string, further map[string]string) {
	router, node := routerRef(name), g.Node
	options := map[string]string{
		"chassis": node.Chassis,
		// The join switch has as many routers as nodes, and northd would create flows for each pair.
		"dynamic_neigh_routers": "true", "always_learn_from_arp_request": "false", "mac_binding_age_threshold": neighbourAge,
		requestedTunnelKey: key(gatewayKeys + node.ID),
	}
	maps.Copy(options, further)
	rtoj := g.routerPort(names.RouterToJoin(name), joinMAC(ipam.Addresses(g.Join)), g.Join, gatewayToJoinKey)
	jtor := routerTypePort(names.JoinToRouter(name), rtoj.Name, joinToGatewayKeys+node.ID)
	u.Rows = append(u.Rows, unit.Row{Model: &nbdb.LogicalRouter{UUID: router.UUID, Name: name,
		Options: options}}, unit.Row{Model: rtoj}, unit.Row{Model: jtor})
	u.Members = append(u.Members,
		unit.Membership{Parent: router, Column: "ports", Element: rtoj.UUID},
		unit.Membership{Parent: switchRef(names.JoinSwitch), Column: "ports", Element: jtor.UUID})
}

// addExternalSwitch adds the switch that leads outside, and the gateway router's link to it.
func (g gateway) addExternalSwitch(u *unit.Unit) {
	name := names.Localnet(g.Bridge, g.Node.Name)
	localnet := &nbdb.LogicalSwitchPort{UUID: switchPortUUID(name), Name: name, Type: "localnet", Addresses: []string{"unknown"},
		Options: map[string]string{"network_name": names.PhysicalNetwork, requestedTunnelKey: key(localnetKey)}}
	// The router announces addresses that lead to this node. It does not announce the addresses that every node
	// balances.
	g.addExternalSwitchOf(u, names.GatewayRouter(g.Node.Name), g.MAC, g.Addresses, localnet,
		map[string]string{"nat-addresses": "router", "exclude-lb-vips-from-garp": "true"})
}

// addExternalSwitchOf adds the external switch with a port that leads on, and a router's link to it, whose end at the switch has
// further options.
func (g gateway) addExternalSwitchOf(u *unit.Unit, router string, mac net.HardwareAddr, networks []netip.Prefix,
	port *nbdb.LogicalSwitchPort, further map[string]string) {
	external := switchRef(names.ExternalSwitch(g.Node.Name))
	rtoe := g.routerPort(names.RouterToExternal(router), mac, networks, gatewayToExternal)
	etor := routerTypePort(names.ExternalToRouter(router), rtoe.Name, externalToGateway)
	etor.Addresses = []string{mac.String()}
	maps.Copy(etor.Options, further)
	u.Rows = append(u.Rows, unit.Row{Model: &nbdb.LogicalSwitch{UUID: external.UUID, Name: names.ExternalSwitch(g.Node.Name),
		OtherConfig: map[string]string{requestedTunnelKey: key(externalKeys + g.Node.ID)}}},
		unit.Row{Model: rtoe}, unit.Row{Model: etor}, unit.Row{Model: port})
	u.Members = append(u.Members,
		unit.Membership{Parent: routerRef(router), Column: "ports", Element: rtoe.UUID},
		unit.Membership{Parent: external, Column: "ports", Element: etor.UUID},
		unit.Membership{Parent: external, Column: "ports", Element: port.UUID})
}

func (g gateway) routerPort(name string, mac net.HardwareAddr, networks []netip.Prefix, tunnelKey int) *nbdb.LogicalRouterPort {
	port := &nbdb.LogicalRouterPort{UUID: routerPortUUID(name), Name: name, MAC: mac.String(), Networks: textsOf(networks),
		Options: map[string]string{requestedTunnelKey: key(tunnelKey)}}
	if g.MTU > 0 {
		// A sender of larger packets into the tunnel receives the MTU that fits (RFC 1191, RFC 8201).
		port.Options["gateway_mtu"] = key(g.MTU)
	}
	return port
}

// addSourceRoutes routes the node's pods to the outside through the next hop of each family.
func (g gateway) addSourceRoutes(u *unit.Unit, nextHops []netip.Addr) {
	for _, subnet := range g.Node.Subnets {
		for _, hop := range nextHops {
			if hop.Is4() == subnet.Addr().Is4() {
				policy := nbdb.LogicalRouterStaticRoutePolicySrcIP
				addRoute(u, names.ClusterRouter, &nbdb.LogicalRouterStaticRoute{IPPrefix: subnet.String(),
					Nexthop: hop.String(), Policy: &policy})
				break
			}
		}
	}
}

// addRoutes adds the gateway router's routes, and the cluster router's routes to it.
func (g gateway) addRoutes(u *unit.Unit) {
	router := names.GatewayRouter(g.Node.Name)
	outside := names.RouterToExternal(router)
	for _, join := range g.Join {
		// The source routes of pods must not lead replies of this router's balancers to another gateway.
		own := join.Addr().String()
		addRoute(u, names.ClusterRouter, &nbdb.LogicalRouterStaticRoute{IPPrefix: own, Nexthop: own})
		g.addRoutesInside(u, router, join)
	}
	for _, hop := range g.NextHops {
		addRoute(u, router, &nbdb.LogicalRouterStaticRoute{IPPrefix: defaultRoute(hop), Nexthop: hop.String(), OutputPort: &outside})
	}
}

// addRoutesInside adds a router's routes to pods, by its address on the join switch.
func (g gateway) addRoutesInside(u *unit.Unit, router string, join netip.Prefix) {
	for _, cluster := range g.Clusters {
		if cluster.Addr().Is4() == join.Addr().Is4() {
			addRoute(u, router, &nbdb.LogicalRouterStaticRoute{IPPrefix: cluster.String(),
				Nexthop: ipam.Gateway(join.Masked()).String()})
		}
	}
}

func addRoute(u *unit.Unit, router string, route *nbdb.LogicalRouterStaticRoute) {
	name := router + " " + route.IPPrefix
	if route.Policy != nil {
		name += " " + *route.Policy
	}
	route.UUID = unit.UUID(nbdb.LogicalRouterStaticRouteTable, name)
	u.Rows = append(u.Rows, unit.Row{Model: route})
	u.Members = append(u.Members, unit.Membership{Parent: routerRef(router), Column: "static_routes", Element: route.UUID})
}

func defaultRoute(hop netip.Addr) string {
	if hop.Is4() {
		return "0.0.0.0/0"
	}
	return "::/0"
}

// addSNAT translates the source of packets from pods, and of packets from the router itself, to the router's outside
// address.
func (g gateway) addSNAT(u *unit.Unit) {
	if !g.SNAT {
		return
	}
	router := names.GatewayRouter(g.Node.Name)
	for _, outside := range g.Addresses {
		inside := make([]string, 0, len(g.Clusters)+len(g.Join))
		for _, cluster := range g.Clusters {
			if cluster.Addr().Is4() == outside.Addr().Is4() {
				inside = append(inside, cluster.String())
			}
		}
		for _, join := range g.Join {
			// The router's ICMP errors have its address on the join switch.
			if join.Addr().Is4() == outside.Addr().Is4() {
				inside = append(inside, join.Addr().String())
			}
		}
		for _, logical := range inside {
			nat := &nbdb.NAT{UUID: unit.UUID(nbdb.NATTable, router+" snat "+logical), Type: nbdb.NATTypeSNAT,
				ExternalIP: outside.Addr().String(), LogicalIP: logical}
			u.Rows = append(u.Rows, unit.Row{Model: nat})
			u.Members = append(u.Members, unit.Membership{Parent: routerRef(router), Column: "nat", Element: nat.UUID})
		}
	}
}

// addManagementPolicies routes packets from the node's pods to the node itself through its management port. They keep
// the pod's address and do not leave the node.
func (g gateway) addManagementPolicies(u *unit.Unit) {
	for _, address := range slices.Concat(g.HostAddresses, g.OtherAddresses) {
		for _, hop := range facts.ManagementAddresses(g.Node.Subnets) {
			if hop.Is4() != address.Is4() {
				continue
			}
			nextHop := hop.String()
			policy := &nbdb.LogicalRouterPolicy{UUID: unit.UUID(nbdb.LogicalRouterPolicyTable,
				g.Node.Name+" management "+address.String()),
				Priority: managementPolicy, Match: ovnexpr.RoutedTo(names.RouterToSwitch(g.Node.Name), address),
				Action: nbdb.LogicalRouterPolicyActionReroute, Nexthops: []string{nextHop}}
			u.Rows = append(u.Rows, unit.Row{Model: policy})
			u.Members = append(u.Members, unit.Membership{Parent: routerRef(names.ClusterRouter), Column: "policies",
				Element: policy.UUID})
			break
		}
	}
}

func textsOf(prefixes []netip.Prefix) []string {
	texts := make([]string, 0, len(prefixes))
	for _, p := range prefixes {
		texts = append(texts, p.String())
	}
	return texts
}
