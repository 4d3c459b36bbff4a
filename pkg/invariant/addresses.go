package invariant

import (
	"net/netip"
	"slices"

	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
)

// addressInvariants returns the invariants of addresses on the wire.
func addressInvariants() []Invariant {
	return []Invariant{
		{"UniqueAddress", "No two ports of a network have the same IP address.", uniqueAddress},
		{"UniqueMAC", "No two ports of a switch have the same MAC address.", uniqueMAC},
		{"PortSecurity", "A pod's port may send from exactly its own addresses.", portSecurity},
	}
}

// addressesOf reads the addresses of a port. Elements without a MAC ("router", "unknown", "dynamic") have none.
func addressesOf(port *nbdb.LogicalSwitchPort) []ovnexpr.PortAddress {
	var found []ovnexpr.PortAddress
	for _, element := range port.Addresses {
		if address, err := ovnexpr.ParsePortAddress(element); err == nil {
			found = append(found, address)
		}
	}
	return found
}

func uniqueAddress(v *view) (found []Violation) {
	type place struct {
		network string // a Network, or "" for the cluster network
		address netip.Addr
	}
	holders := map[place][]any{}
	hold := func(network string, address netip.Addr, row any) {
		if onEgressLink(address) {
			return
		}
		if at := (place{network, address}); !slices.Contains(holders[at], row) {
			holders[at] = append(holders[at], row)
		}
	}
	for _, port := range v.ports {
		if !v.concerns(port) {
			continue
		}
		for _, element := range addressesOf(port) {
			for _, address := range element.Addresses {
				hold(v.networkAt(port), address, port)
			}
		}
	}
	for _, port := range v.routerPorts {
		if !ours(port) {
			continue
		}
		for _, network := range port.Networks {
			if prefix, err := netip.ParsePrefix(network); err == nil {
				hold(networkOf(port), prefix.Addr(), port)
			}
		}
	}
	for at, rows := range holders {
		if len(rows) > 1 {
			found = append(found, v.about(rows, "address %s belongs to %d ports: %v", at.address, len(rows), v.namesOf(rows)))
		}
	}
	return found
}

// onEgressLink reports whether an address is of the link between a node's host and its gateway router in Local mode, which has
// the same addresses on each node.
func onEgressLink(address netip.Addr) bool {
	return slices.ContainsFunc(ipam.EgressLink(true), func(n netip.Prefix) bool { return n.Masked().Contains(address) })
}

func uniqueMAC(v *view) (found []Violation) {
	rows := byUUID(v.ports)
	for _, s := range v.switches {
		if !ours(s) {
			continue
		}
		holders := map[string][]any{}
		for _, id := range s.Ports {
			if port := rows[id]; port != nil {
				for _, mac := range v.macsOf(port) {
					holders[mac] = append(holders[mac], port)
				}
			}
		}
		for mac, rows := range holders {
			if len(rows) > 1 {
				found = append(found, v.about(rows, "MAC %s belongs to %d ports of switch %s: %v", mac, len(rows),
					s.Name, v.namesOf(rows)))
			}
		}
	}
	return found
}

// macsOf lists the MACs that respond at a port, without duplicates. For a port to a router they are the router
// port's.
func (v *view) macsOf(port *nbdb.LogicalSwitchPort) []string {
	var macs []string
	for _, element := range addressesOf(port) {
		macs = append(macs, element.MAC.String())
	}
	if port.Type == "router" {
		for _, peer := range v.routerByName[port.Options["router-port"]] {
			macs = append(macs, peer.MAC)
		}
	}
	slices.Sort(macs)
	return slices.Compact(macs)
}

func (v *view) namesOf(rows []any) []string {
	var names []string
	for _, row := range rows {
		names = append(names, v.rowOf(row).Name)
	}
	slices.Sort(names)
	return names
}

func portSecurity(v *view) (found []Violation) {
	for owner, ports := range v.owned {
		if owner.Kind() != topology.KindPod && owner.Kind() != topology.KindPodPorts {
			continue
		}
		for _, port := range ports {
			if slices.Contains(port.Addresses, "unknown") { // the pods of the Network configure themselves
				continue
			}
			if !slices.Equal(slices.Sorted(slices.Values(port.PortSecurity)), slices.Sorted(slices.Values(port.Addresses))) {
				found = append(found, v.about([]any{port}, "port %s has addresses %q and port_security %q", port.Name,
					port.Addresses, port.PortSecurity))
			}
		}
	}
	return found
}
