package topology

import (
	"net/netip"
	"slices"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// variable is a word in a template's text with a different value on each chassis.
type variable struct {
	name string
	// address is the value of an AddressVariable on every chassis.
	address netip.Addr
	// from and backends determine the value of a BackendsVariable.
	from     facts.Choice
	backends []facts.Backend
}

// values returns the values of the variables on each node. Every chassis must have every variable: OVN leaves out
// flows with a missing variable on that chassis, and packets would bypass the service.
func (s service) values(variables []variable) (members []unit.Membership) {
	for _, v := range variables {
		for _, node := range s.Nodes {
			if node.Chassis == "" {
				continue
			}
			members = append(members, unit.Membership{Parent: templateVariables(node.Chassis), Column: "variables",
				Element: v.name, Value: v.on(node)})
		}
	}
	return members
}

func (v variable) on(node facts.ServiceNode) string {
	if v.address.IsValid() {
		return v.address.String()
	}
	return backendsOn(node, v.from, v.backends, 0)
}

// backendsOn formats the backends that a choice leaves on a node. There is at least one backend.
func backendsOn(node facts.ServiceNode, from facts.Choice, backends []facts.Backend, turn int) string {
	chosen := facts.Choose(backends, from, node)
	if len(chosen) == 0 {
		return ipam.NowhereOf(backends[0].Addr()).String()
	}
	return listOf(chosen, turn)
}

// templateVariables returns the row of a chassis' variables.
func templateVariables(chassis string) unit.Ref {
	return unit.Ref{Table: nbdb.ChassisTemplateVarTable, UUID: unit.UUID(nbdb.ChassisTemplateVarTable, chassis)}
}

// nodeAddresses returns the memberships that set the node's own addresses on a chassis. A missing family has an
// address that receives no packets.
func nodeAddresses(chassis string, addresses []netip.Addr) (members []unit.Membership) {
	for _, address := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		family := names.Family(address)
		if i := slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is4() == address.Is4() }); i >= 0 {
			address = addresses[i]
		}
		members = append(members, unit.Membership{Parent: templateVariables(chassis), Column: "variables",
			Element: names.NodeAddressVariable(family), Value: address.String()})
	}
	return members
}
