package topology

import (
	"net/netip"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// PodNetworkUnit wants what a network has once: its switch, or its router.
func PodNetworkUnit(n facts.PodNetwork) unit.Unit {
	u := unit.Unit{Key: PodNetworkKey(n.Name)}
	ids := map[string]string{"network": n.Name}
	if n.PerNode() {
		name := names.NetworkRouter(n.Name)
		u.Rows = append(u.Rows, unit.Row{Model: &nbdb.LogicalRouter{UUID: routerRef(name).UUID, Name: name,
			Options: map[string]string{"always_learn_from_arp_request": "false"}, ExternalIDs: ids}})
		return u
	}
	name := names.NetworkSwitch(n.Name)
	ls := switchRef(name)
	u.Rows = append(u.Rows, unit.Row{Model: &nbdb.LogicalSwitch{UUID: ls.UUID, Name: name, ExternalIDs: ids}})
	if n.PhysicalNetwork != "" {
		addLocalnet(&u, n, ls)
	}
	return u
}

// PodNetworkNodeUnit wants a node's switch of a Layer3 network, and its link to the network's router.
func PodNetworkNodeUnit(n facts.PodNetwork, node string, subnets []netip.Prefix) unit.Unit {
	name, router := names.NetworkNodeSwitch(n.Name, node), names.NetworkRouter(n.Name)
	ls := switchRef(name)
	toSwitch := &nbdb.LogicalRouterPort{
		UUID: routerPortUUID(names.RouterToSwitch(name)), Name: names.RouterToSwitch(name),
		MAC: ipam.MAC(facts.Gateways(subnets)).String(), Networks: GatewayNetworks(subnets),
	}
	toRouter := routerTypePort(names.SwitchToRouter(name), toSwitch.Name, switchToRouterKey)
	return unit.Unit{
		Key: PodNetworkNodeKey(n.Name, node),
		Rows: []unit.Row{
			{Model: &nbdb.LogicalSwitch{UUID: ls.UUID, Name: name, ExternalIDs: map[string]string{"network": n.Name, "node": node}}},
			{Model: toSwitch}, {Model: toRouter},
		},
		Members: []unit.Membership{
			{Parent: routerRef(router), Column: "ports", Element: toSwitch.UUID},
			{Parent: ls, Column: "ports", Element: toRouter.UUID},
		},
	}
}
