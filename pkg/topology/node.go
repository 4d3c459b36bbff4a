package topology

import (
	"maps"
	"net"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// NodeUnit returns a unit with the node's switch, its link to the cluster router and the management port.
func NodeUnit(n facts.Node) unit.Unit {
	ls, group := switchRef(names.NodeSwitch(n.Name)), loadBalancersRef(names.NodeLoadBalancers(n.Name))
	rtos := &nbdb.LogicalRouterPort{
		UUID: routerPortUUID(names.RouterToSwitch(n.Name)), Name: names.RouterToSwitch(n.Name),
		MAC: gatewayMAC(n).String(), Networks: GatewayNetworks(n.Subnets),
		Options: map[string]string{requestedTunnelKey: key(routerToSwitchKeys + n.ID)},
	}
	stor := routerTypePort(names.SwitchToRouter(n.Name), rtos.Name, switchToRouterKey)
	mp := managementPort(n)
	config := map[string]string{requestedTunnelKey: key(nodeSwitchKeys + n.ID)}
	u := unit.Unit{
		Key: NodeKey(n.Name),
		Rows: []unit.Row{
			{Model: &nbdb.LogicalSwitch{UUID: ls.UUID, Name: names.NodeSwitch(n.Name), OtherConfig: config}},
			{Model: rtos}, {Model: stor}, {Model: mp},
			{Model: &nbdb.LoadBalancerGroup{UUID: group.UUID, Name: names.NodeLoadBalancers(n.Name)}},
		},
		Members: []unit.Membership{
			{Parent: routerRef(names.ClusterRouter), Column: "ports", Element: rtos.UUID},
			{Parent: ls, Column: "ports", Element: stor.UUID},
			{Parent: ls, Column: "ports", Element: mp.UUID},
		},
	}
	addReplyMark(&u, n.Name)
	if n.Multicast {
		maps.Copy(config, snooping(n))
		addMulticastDrops(&u, n.Name)
	}
	u.Members = append(u.Members, unit.Membership{Parent: portGroupRef(names.ManagementPorts), Column: "ports", Element: mp.UUID})
	for _, address := range facts.ManagementAddresses(n.Subnets) {
		set := addressSetRef(names.ManagementAddresses(names.Family(address)))
		u.Members = append(u.Members, unit.Membership{Parent: set, Column: "addresses", Element: address.String()})
	}
	addGroups(&u, ls, names.ClusterLoadBalancers, names.SwitchLoadBalancers, names.NodeLoadBalancers(n.Name))
	if n.Chassis != "" {
		u.Rows = append(u.Rows, unit.Row{Model: &nbdb.ChassisTemplateVar{UUID: templateVariables(n.Chassis).UUID, Chassis: n.Chassis}})
	}
	return u
}

// addGroups adds groups of load balancers to a switch or router.
func addGroups(u *unit.Unit, to unit.Ref, groups ...string) {
	for _, group := range groups {
		u.Members = append(u.Members, unit.Membership{Parent: to, Column: "load_balancer_group", Element: loadBalancersRef(group).UUID})
	}
}

// gatewayMAC returns the MAC of the cluster router on the node's switch.
func gatewayMAC(n facts.Node) net.HardwareAddr {
	if n.GatewayMAC != nil {
		return n.GatewayMAC
	}
	return ipam.MAC(facts.Gateways(n.Subnets))
}

func managementPort(n facts.Node) *nbdb.LogicalSwitchPort {
	options := map[string]string{requestedTunnelKey: key(managementPortKey)}
	if n.Chassis != "" {
		options[names.RequestedChassis] = n.Chassis
	}
	return &nbdb.LogicalSwitchPort{
		UUID: switchPortUUID(names.ManagementPort(n.Name)), Name: names.ManagementPort(n.Name),
		Addresses: []string{ovnexpr.PortAddress{MAC: n.ManagementMAC, Addresses: facts.ManagementAddresses(n.Subnets)}.String()},
		Options:   options,
	}
}
