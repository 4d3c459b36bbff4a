package invariant

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// rowInvariants returns the invariants of the database itself and of its rows' owners.
func rowInvariants() []Invariant {
	return []Invariant{
		{"OwnerLives", "Every row of Weft belongs to an existing object that needs it.", ownerLives},
		{"ReferencesResolve", "Every reference in a row, strong or weak, names an existing row.", referencesResolve},
		{"UniqueName", "No other row of a table has a Weft row's name.", uniqueName},
		{"Singletons", "A ClusterNetwork has exactly one cluster router and one join switch.", singletons},
		{"PortOnOneSwitch", "Every logical switch port of Weft is on exactly one switch.", portOnOneSwitch},
		{"RouterPortOnOneRouter", "Every logical router port of Weft is on exactly one router.", routerPortOnOneRouter},
		{"PeersExist", "Switch ports of type router and router ports of Weft form pairs.", peersExist},
		{"UniqueRoute", "No router has two routes of one prefix, policy and table.", uniqueRoute},
		{"UniqueNAT", "No router translates one address twice in the same way.", uniqueNAT},
		{"UniqueACL", "No switch or port group has one ACL twice.", uniqueACL},
	}
}

// ownerLives finds nothing without a ClusterNetwork, because all rows stay then. Rows of kinds that this version does
// not have count as alive, because it keeps them.
func ownerLives(v *view) (found []Violation) {
	if v.ClusterNetwork == nil {
		return nil
	}
	for _, table := range slices.Sorted(maps.Keys(v.Northbound)) {
		for _, row := range v.Northbound[table] {
			owner := ownerOf(row)
			if owner == "" {
				continue
			}
			if why := v.dead(owner); why != "" {
				found = append(found, v.about([]any{row}, "%s belongs to %s, %s", v.rowOf(row), owner, why))
			}
		}
	}
	return found
}

// dead returns why a unit should have no rows, or "" if it may have rows.
func (v *view) dead(owner unit.Key) string {
	switch owner.Kind() {
	case topology.KindPod:
		if v.pods[owner] == nil {
			return "a pod that does not exist or that needs no port"
		}
	case topology.KindNode, topology.KindGateway, topology.KindTransitNode:
		if v.nodes[owner.Name()] == nil {
			return "a node that does not exist"
		}
	case topology.KindTransit:
		if v.withoutZones() {
			return "and the cluster has no zones"
		}
	case topology.KindEgressIP:
		if v.egress[owner] == nil {
			return "an EgressIP that does not exist"
		}
	case topology.KindEgressService:
		if !v.leaving[owner] {
			return "a service whose pods do not leave with its addresses"
		}
	case topology.KindLoadBalancerPool:
		if v.balancers[owner] == nil {
			return "a LoadBalancerPool that does not exist"
		}
	case topology.KindService:
		if !v.balanced[owner] {
			return "a service that does not exist or has no address"
		}
	case topology.KindNetworkPolicy:
		if !v.policies[owner] {
			return "a NetworkPolicy that does not exist"
		}
	case topology.KindMultiNetworkPolicy:
		if !v.policies[owner] {
			return "a MultiNetworkPolicy that does not exist"
		}
	case topology.KindClusterNetworkPolicy, topology.KindAdminNetworkPolicy, topology.KindBaselineAdminNetworkPolicy:
		if !v.policies[owner] {
			return "a cluster-wide policy that does not exist"
		}
	case topology.KindEgressQoS:
		if !v.policies[owner] {
			return "an EgressQoS that does not exist"
		}
	case topology.KindMulticast:
		if !v.policies[owner] {
			return "a namespace that requests no multicast"
		}
	case topology.KindEgressFirewall:
		if !v.firewalls[owner] {
			return "an egress firewall that does not exist"
		}
	case topology.KindNodes, topology.KindDNS:
		if !v.sets[owner] {
			return "a set that no rule names"
		}
	case topology.KindPodNetwork, topology.KindPodNetworkNode, topology.KindPodPorts:
		return v.deadOfNetworks(owner)
	}
	return ""
}

// reference is a column that holds UUIDs of another table's rows.
type reference struct{ column, to string }

// references lists the reference columns of each table, from the schema.
func references() map[string][]reference {
	found := map[string][]reference{}
	for table, t := range nbdb.Schema().Tables {
		for name, column := range t.Columns {
			if column.TypeObj == nil || column.TypeObj.Key == nil {
				continue
			}
			if to, err := column.TypeObj.Key.RefTable(); err == nil && to != "" {
				found[table] = append(found[table], reference{name, to})
			}
		}
	}
	return found
}

func referencesResolve(v *view) (found []Violation) {
	columns := references()
	exists := map[string]map[string]bool{} // table -> UUIDs
	for table, rows := range v.Northbound {
		exists[table] = make(map[string]bool, len(rows))
		for _, row := range rows {
			exists[table][v.rowOf(row).UUID] = true
		}
	}
	for table, rows := range v.Northbound {
		for _, row := range rows {
			for _, r := range columns[table] {
				if exists[r.to] == nil {
					continue
				}
				for _, id := range uuids(row, r.column) {
					if !exists[r.to][id] {
						found = append(found, v.about([]any{row}, "%s has in %s the row %s of %s, which does not exist",
							v.rowOf(row), r.column, id, r.to))
					}
				}
			}
		}
	}
	return found
}

// uuids reads a column of references.
func uuids(row model.Model, column string) []string {
	value := reflect.ValueOf(row).Elem()
	for i := range value.NumField() {
		if value.Type().Field(i).Tag.Get("ovsdb") != column {
			continue
		}
		switch field := value.Field(i).Interface().(type) {
		case []string:
			return field
		case *string:
			if field != nil {
				return []string{*field}
			}
		case string:
			return []string{field}
		}
	}
	return nil
}

// once maps the names of Singletons to their tables.
var once = map[string]string{names.ClusterRouter: nbdb.LogicalRouterTable, names.JoinSwitch: nbdb.LogicalSwitchTable}

func uniqueName(v *view) (found []Violation) {
	for table, rows := range v.Northbound {
		byName := map[string][]any{}
		for _, row := range rows {
			if name := v.rowOf(row).Name; name != "" && once[name] != table {
				byName[name] = append(byName[name], row)
			}
		}
		for name, same := range byName {
			if len(same) > 1 && slices.ContainsFunc(same, ours) {
				found = append(found, v.about(same, "%d rows of %s are named %s", len(same), table, name))
			}
		}
	}
	return found
}

func singletons(v *view) (found []Violation) {
	if v.ClusterNetwork == nil {
		return nil
	}
	for name, table := range once {
		var same []any
		for _, row := range v.Northbound[table] {
			if v.rowOf(row).Name == name {
				same = append(same, row)
			}
		}
		if len(same) != 1 || !ours(same[0]) {
			found = append(found, v.about(same, "%d rows of %s are named %s, and one of Weft should be", len(same), table, name))
		}
	}
	return found
}

func portOnOneSwitch(v *view) (found []Violation) {
	for _, port := range v.ports {
		if on := v.onSwitch[port.UUID]; ours(port) && len(on) != 1 {
			found = append(found, v.about([]any{port}, "port %s is on %s", port.Name, listed("switch", "switches", on)))
		}
	}
	return found
}

func routerPortOnOneRouter(v *view) (found []Violation) {
	for _, port := range v.routerPorts {
		if on := v.onRouter[port.UUID]; ours(port) && len(on) != 1 {
			found = append(found, v.about([]any{port}, "router port %s is on %s", port.Name, listed("router", "routers", on)))
		}
	}
	return found
}

// listed returns the number of rows and their names.
func listed[T interface{ GetName() string }](one, many string, rows []T) string {
	var names []string
	for _, row := range rows {
		names = append(names, row.GetName())
	}
	slices.Sort(names)
	switch len(rows) {
	case 0:
		return "no " + one
	case 1:
		return "one " + one + ": " + names[0]
	}
	return fmt.Sprintf("%d %s: %v", len(rows), many, names)
}

func peersExist(v *view) (found []Violation) {
	named := map[string][]any{} // router port -> switch ports that name it
	for _, port := range v.ports {
		if port.Type != "router" {
			continue
		}
		peer := port.Options["router-port"]
		named[peer] = append(named[peer], port)
		if ours(port) && len(v.routerByName[peer]) == 0 {
			found = append(found, v.about([]any{port}, "port %s names the router port %q, which does not exist", port.Name, peer))
		}
	}
	for _, port := range v.routerPorts {
		if port.Peer != nil {
			if ours(port) && len(v.routerByName[*port.Peer]) == 0 {
				found = append(found, v.about([]any{port}, "router port %s names the peer %q, which does not exist",
					port.Name, *port.Peer))
			}
		} else if peers := named[port.Name]; ours(port) && len(peers) != 1 {
			found = append(found, v.about(append([]any{port}, peers...),
				"router port %s is named by %d switch ports, want 1", port.Name, len(peers)))
		}
	}
	return found
}
