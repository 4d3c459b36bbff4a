package topology

import (
	"net/netip"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// KeptPortsUnit returns the unit of a pod's ports on Networks from its rows, for a pod whose requests cannot be read at
// present: the ports stay as they are, and join the groups and sets that selected returns for a Network.
func KeptPortsUnit(namespace, name, node string, rows []unit.Row, selected func(network string) []unit.Key) unit.Unit {
	u := unit.Unit{Key: PodPortsKey(namespace, name), Rows: rows}
	for _, row := range rows {
		port, ok := row.Model.(*nbdb.LogicalSwitchPort)
		if !ok {
			continue
		}
		attached, ok, err := ovnexpr.ParseAttachment(port.ExternalIDs)
		if !ok || err != nil {
			continue
		}
		on := switchRef(names.NetworkSwitch(attached.Network))
		if len(attached.Routes) > 0 { // only a network with a switch for each node has routes
			on = switchRef(names.NetworkNodeSwitch(attached.Network, node))
		}
		u.Members = append(u.Members, unit.Membership{Parent: on, Column: "ports", Element: port.UUID})
		for _, row := range rows {
			if limit, ok := row.Model.(*nbdb.QoS); ok &&
				(limit.Match == ovnexpr.FromPort(port.Name) || limit.Match == ovnexpr.ToPort(port.Name)) {
				u.Members = append(u.Members, unit.Membership{Parent: on, Column: "qos_rules", Element: limit.UUID})
			}
		}
		addSelected(&u, port.UUID, portAddresses(port), selected(attached.Network))
	}
	return u
}

// portAddresses returns the addresses of a port, or nil for a port without addresses.
func portAddresses(port *nbdb.LogicalSwitchPort) []netip.Addr {
	if len(port.Addresses) == 0 {
		return nil
	}
	address, err := ovnexpr.ParsePortAddress(port.Addresses[0])
	if err != nil {
		return nil
	}
	return address.Addresses
}
