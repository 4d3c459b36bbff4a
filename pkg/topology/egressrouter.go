package topology

import (
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// addEgressRouter adds the gateway router of a node in Local mode that carries egress IPs. EgressIPUnit sends the pods' packets
// to it and translates them there, as in Shared mode. They leave through the host:
//
//	ER_n1 ── ext_n1 ── weft-egress0 ─▶ the host's routes ─▶ the link outside
//
// EgressIPs put their addresses into sets, from which the agent makes the host answer for them.
func (g gateway) addEgressRouter(u *unit.Unit) {
	router := names.EgressRouter(g.Node.Name)
	g.addRouterOf(u, router, nil)
	own, host := ipam.EgressLink(true), ipam.Addresses(ipam.EgressLink(false))
	port := &nbdb.LogicalSwitchPort{UUID: switchPortUUID(names.EgressPort(g.Node.Name)), Name: names.EgressPort(g.Node.Name),
		Addresses: []string{ovnexpr.PortAddress{MAC: ipam.MAC(host), Addresses: host}.String()},
		Options:   map[string]string{requestedTunnelKey: key(egressPortKey), names.RequestedChassis: g.Node.Chassis}}
	g.addExternalSwitchOf(u, router, ipam.MAC(ipam.Addresses(own)), own, port, nil)
	g.addSets(u, names.EgressAddresses)
	for _, join := range g.Join {
		g.addRoutesInside(u, router, join)
	}
	outside := names.RouterToExternal(router)
	for _, hop := range host {
		addRoute(u, router, &nbdb.LogicalRouterStaticRoute{IPPrefix: defaultRoute(hop), Nexthop: hop.String(), OutputPort: &outside})
	}
}
