package topology

import (
	"net/netip"
	"strings"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// SelectedUnit returns the unit of a pod that names a selector's group and set.
func SelectedUnit(s facts.PodSelector, namespace, pod string) unit.Key {
	if s.Network == "" {
		return PodKey(namespace, pod)
	}
	return PodPortsKey(namespace, pod)
}

// PodGroupUnit returns a unit with the port group of a selector. Pods add their ports by their own units. A port is
// in the group from the transaction on that creates the later of the two.
func PodGroupUnit(key unit.Key) unit.Unit {
	return unit.Unit{Key: key, Rows: []unit.Row{{Model: &nbdb.PortGroup{UUID: podGroupRef(key).UUID, Name: podGroupName(key)}}}}
}

// PodSetUnit returns a unit with the address sets of a selector, which the pods join in the same way.
func PodSetUnit(key unit.Key) unit.Unit { return AddressSetUnit(key, nil) }

// SelectedRows returns the rows of a selector's group or sets, by their unit.
func SelectedRows(key unit.Key) []unit.Ref {
	if key.Kind() == KindPodGroup {
		return []unit.Ref{podGroupRef(key)}
	}
	var refs []unit.Ref
	for _, uuid := range AddressSetRows(key) {
		refs = append(refs, unit.Ref{Table: nbdb.AddressSetTable, UUID: uuid})
	}
	return refs
}

// SelectedMembers returns a function of a pod's unit (SelectedUnit): the memberships that the unit gains when a selector
// selects the pod, in the selector's group or sets, whose unit is key.
func SelectedMembers(s facts.PodSelector, key unit.Key) func(pod unit.Unit) []unit.Membership {
	rows := rowsOf(key)
	return func(pod unit.Unit) []unit.Membership {
		joined := unit.Unit{}
		if addresses := addressesElsewhere(pod); len(addresses) > 0 && rows.group.UUID == "" {
			rows.add(&joined, "", addresses)
		}
		for _, row := range pod.Rows {
			port, ok := row.Model.(*nbdb.LogicalSwitchPort)
			if !ok || len(port.Addresses) == 0 {
				continue
			}
			if on, _, _ := strings.Cut(port.Name, "_"); s.Network != "" && on != s.Network {
				continue
			}
			address, err := ovnexpr.ParsePortAddress(port.Addresses[0])
			if err != nil {
				continue // not made by PodUnit or PodPortsUnit
			}
			rows.add(&joined, port.UUID, address.Addresses)
		}
		return joined.Members
	}
}

// SelectorUnit returns the unit of a selector's group or sets.
func SelectorUnit(key unit.Key) unit.Unit {
	if key.Kind() == KindPodGroup {
		return PodGroupUnit(key)
	}
	return PodSetUnit(key)
}

func podGroupName(key unit.Key) string { return names.PodGroup(key.Name()) }

func podGroupRef(key unit.Key) unit.Ref { return portGroupRef(podGroupName(key)) }

// selectedRows are the rows of a selector's group, or of its sets by family. A group has no sets.
type selectedRows struct {
	group unit.Ref
	sets  map[string]unit.Ref
}

func rowsOf(key unit.Key) (rows selectedRows) {
	switch key.Kind() {
	case KindPodGroup:
		rows.group = podGroupRef(key)
	case KindPodSet:
		rows.sets = map[string]unit.Ref{}
		for _, family := range families {
			rows.sets[names.Family(family)] = unit.Ref{Table: nbdb.AddressSetTable, UUID: addressSetUUID(key, family)}
		}
	}
	return rows
}

// addSelected adds a port and its addresses to the existing groups and sets of its selectors.
func addSelected(u *unit.Unit, port string, addresses []netip.Addr, selected []unit.Key) {
	for _, key := range selected {
		rowsOf(key).add(u, port, addresses)
	}
}

// add adds a port and its addresses to the rows.
func (r selectedRows) add(u *unit.Unit, port string, addresses []netip.Addr) {
	if r.group.UUID != "" {
		u.Members = append(u.Members, unit.Membership{Parent: r.group, Column: "ports", Element: port, Optional: true})
	}
	for _, address := range addresses {
		if set, ok := r.sets[names.Family(address)]; ok {
			u.Members = append(u.Members, unit.Membership{Parent: set, Column: "addresses", Element: address.String(), Optional: true})
		}
	}
}
