package topology

import (
	"net"
	"net/netip"
	"slices"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// ClusterIDKey is the external_ids key of the cluster router that identifies the database's Kubernetes cluster.
// Deleting the ports of pods that the API server does not have is safe only if it is the same API server as before.
const ClusterIDKey = "weft.dev/cluster"

// NetworkUnit returns a unit with the cluster router, the join switch, the ports between them and the group of the
// services' load balancers.
func NetworkUnit(n facts.Network) unit.Unit {
	router, join := routerRef(names.ClusterRouter), switchRef(names.JoinSwitch)
	rtoj := &nbdb.LogicalRouterPort{
		UUID: routerPortUUID(names.RouterToJoin(names.ClusterRouter)), Name: names.RouterToJoin(names.ClusterRouter),
		MAC: joinMAC(facts.Gateways(n.Join)).String(), Networks: GatewayNetworks(n.Join),
		Options: map[string]string{requestedTunnelKey: key(routerToJoinKey)},
	}
	jtor := routerTypePort(names.JoinToRouter(names.ClusterRouter), rtoj.Name, joinToRouterKey)
	options := map[string]string{
		// Learning from every ARP request would fill MAC_Binding with addresses that are never used.
		"always_learn_from_arp_request": "false",
		requestedTunnelKey:              key(clusterRouterKey),
	}
	if n.Multicast {
		options["mcast_relay"] = "true"
	}
	u := unit.Unit{
		Key: NetworkKey(),
		Rows: []unit.Row{
			{Model: &nbdb.LogicalRouter{UUID: router.UUID, Name: names.ClusterRouter, Options: options,
				ExternalIDs: map[string]string{ClusterIDKey: n.Cluster}}},
			{Model: &nbdb.LogicalSwitch{UUID: join.UUID, Name: names.JoinSwitch,
				OtherConfig: map[string]string{requestedTunnelKey: key(joinSwitchKey)}}},
			{Model: rtoj},
			{Model: jtor},
		},
		Members: []unit.Membership{
			{Parent: router, Column: "ports", Element: rtoj.UUID},
			{Parent: join, Column: "ports", Element: jtor.UUID},
		},
	}
	for _, group := range []string{names.ClusterLoadBalancers, names.SwitchLoadBalancers, names.RouterLoadBalancers} {
		u.Rows = append(u.Rows, unit.Row{Model: &nbdb.LoadBalancerGroup{UUID: loadBalancersRef(group).UUID, Name: group}})
	}
	discardNowhere(&u, names.ClusterRouter, n.Join)
	addEgress(&u, n)
	addFloating(&u, n)
	if n.Routed {
		addAllRouted(&u)
	}
	addManagement(&u)
	addRefusal(&u, n)
	// ovn-controllers report connections to idle services.
	u.Members = append(u.Members, unit.Membership{Parent: unit.Ref{Table: nbdb.NBGlobalTable}, Column: "options",
		Element: "controller_event", Value: "true"})
	if n.Clustered {
		u.Members = append(u.Members, unit.Membership{Parent: unit.Ref{Table: nbdb.NBGlobalTable}, Column: "options",
			Element: "northd_probe_interval", Value: northdProbe})
	}
	return u
}

// northdProbe is the interval, in ms, at which ovn-northd checks an idle server of members. By default it checks none, because it uses
// sockets of its host, and would wait for ever for a member that hangs. A server that is busy answers late, so it is twice the interval
// in which members elect another leader.
const northdProbe = "10000"

// discardNowhere makes a router with these networks drop packets that a balancer sends to ipam.Nowhere.
func discardNowhere(u *unit.Unit, router string, networks []netip.Prefix) {
	for _, nowhere := range ipam.Nowhere() {
		if slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Addr().Is4() == nowhere.Is4() }) {
			prefix := netip.PrefixFrom(nowhere, nowhere.BitLen())
			addRoute(u, router, &nbdb.LogicalRouterStaticRoute{IPPrefix: prefix.String(), Nexthop: "discard"})
		}
	}
}

// routerTypePort returns a switch's end of the link to a router port.
func routerTypePort(name, peer string, tunnelKey int) *nbdb.LogicalSwitchPort {
	return &nbdb.LogicalSwitchPort{
		UUID: switchPortUUID(name), Name: name, Type: "router", Addresses: []string{"router"},
		Options: map[string]string{"router-port": peer, requestedTunnelKey: key(tunnelKey)},
	}
}

// GatewayNetworks returns the router's address of each subnet with the subnet's length: "10.244.1.1/24".
func GatewayNetworks(subnets []netip.Prefix) []string {
	networks := make([]string, 0, len(subnets))
	for _, s := range subnets {
		networks = append(networks, netip.PrefixFrom(ipam.Gateway(s), s.Bits()).String())
	}
	return networks
}

// joinMAC returns the MAC of a router's port on the join switch. It is derived from the first address alone, so that it
// stays when a family is added, because the other routers remember it.
func joinMAC(addresses []netip.Addr) net.HardwareAddr {
	return ipam.MAC(addresses[:min(1, len(addresses))])
}

// addManagement adds the group and sets of all management ports, which nodes join. Policies use them to recognize
// traffic from a node itself.
func addManagement(u *unit.Unit) {
	u.Rows = append(u.Rows, unit.Row{Model: &nbdb.PortGroup{UUID: portGroupRef(names.ManagementPorts).UUID, Name: names.ManagementPorts}})
	for _, like := range families {
		u.Rows = append(u.Rows, unit.Row{Model: addressSet(names.ManagementAddresses(names.Family(like)))})
	}
}
