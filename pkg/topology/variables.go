package topology

import (
	"net/netip"
	"slices"

	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// variable is a word in a template's text that means something else on each chassis.
type variable struct {
	name string
	// address is what an AddressVariable means, everywhere.
	address netip.Addr
	// from and backends say how a BackendsVariable is chosen.
	from     Choice
	backends []Backend
	affinity bool
}

// values are what the variables mean on each node. Every chassis has every one: flows with a word that a chassis does not know are
// left out there, and packets would go past the service.
func (s Service) values(variables []variable) (members []unit.Membership) {
	for _, v := range variables {
		for _, node := range s.Nodes {
			if node.Chassis == "" {
				continue
			}
			members = append(members, unit.Membership{Parent: templateVariables(node.Chassis), Column: "variables", Element: v.name, Value: v.on(node)})
		}
	}
	return members
}

func (v variable) on(node ServiceNode) string {
	if v.address.IsValid() {
		return v.address.String()
	}
	if v.from == FromNear {
		return listOf(near(usable(v.backends), node), v.affinity)
	}
	local := usable(slices.DeleteFunc(slices.Clone(v.backends), func(b Backend) bool { return b.Node != node.Name }))
	if len(local) == 0 {
		return nowhere(v.backends[0].Addr()).String()
	}
	return listOf(local, v.affinity)
}

// near are the backends for a node: those meant for it, else those meant for its zone, else all. Hints count only if every backend has
// them: one without may be the only one that somebody can use (KEP-2433).
func near(backends []Backend, node ServiceNode) []Backend {
	for _, meant := range []struct {
		of   func(Backend) []string
		name string
	}{{func(b Backend) []string { return b.ForNodes }, node.Name}, {func(b Backend) []string { return b.ForZones }, node.Zone}} {
		hinted := !slices.ContainsFunc(backends, func(b Backend) bool { return len(meant.of(b)) == 0 })
		if !hinted || meant.name == "" {
			continue
		}
		mine := slices.DeleteFunc(slices.Clone(backends), func(b Backend) bool { return !slices.Contains(meant.of(b), meant.name) })
		if len(mine) > 0 {
			return mine
		}
	}
	return backends
}

// nowhere is a backend of an address's family to which no router has a way: a balancer cannot be told to drop.
func nowhere(family netip.Addr) netip.AddrPort {
	for _, prefix := range Nowhere() {
		if prefix.Addr().Is4() == family.Is4() {
			return netip.AddrPortFrom(prefix.Addr(), 1)
		}
	}
	return netip.AddrPort{}
}

// Nowhere are addresses that every router discards packets to.
func Nowhere() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("169.254.169.4/32"), netip.MustParsePrefix("fd69::4/128")}
}

// templateVariables is the row of a chassis' variables.
func templateVariables(chassis string) unit.Ref {
	return unit.Ref{Table: nbdb.ChassisTemplateVarTable, UUID: unit.UUID(nbdb.ChassisTemplateVarTable, chassis)}
}

// nodeAddresses says on a chassis what the node's own address is. A family that it lacks has an address that nobody sends to.
func nodeAddresses(chassis string, addresses []netip.Addr) (members []unit.Membership) {
	for _, address := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		family := names.Family(address)
		if i := slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is4() == address.Is4() }); i >= 0 {
			address = addresses[i]
		}
		members = append(members, unit.Membership{Parent: templateVariables(chassis), Column: "variables", Element: names.NodeAddressVariable(family), Value: address.String()})
	}
	return members
}
