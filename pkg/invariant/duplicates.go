package invariant

import (
	"fmt"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

// twins finds elements of one parent's set that are alike. byUUID holds the rows, and alike returns the text in which
// two rows must differ. Sets without a row of ours are ignored.
func twins[T any](v *view, parent any, elements []string, byUUID map[string]*T, alike func(*T) string) (found []Violation) {
	groups := map[string][]any{}
	for _, id := range elements {
		if row := byUUID[id]; row != nil {
			groups[alike(row)] = append(groups[alike(row)], row)
		}
	}
	for key, rows := range groups {
		if len(rows) < 2 || !anyOurs(rows) || wanted(rows) {
			continue
		}
		found = append(found, v.about(rows, "%s has %d rows of %s with the same %s", v.rowOf(parent), len(rows),
			v.rowOf(rows[0]).Table, key))
	}
	return found
}

func anyOurs(rows []any) bool {
	for _, row := range rows {
		if ours(row) {
			return true
		}
	}
	return false
}

// wanted reports whether rows are routes of one unit to different next hops, which is one group of equal cost.
func wanted(rows []any) bool {
	hops := map[string]bool{}
	for _, row := range rows {
		route, ok := row.(*nbdb.LogicalRouterStaticRoute)
		if !ok || ownerOf(route) != ownerOf(rows[0]) {
			return false
		}
		hop := route.Nexthop + " " + text(route.OutputPort)
		if hops[hop] {
			return false
		}
		hops[hop] = true
	}
	return true
}

func byUUID[T any](rows []*T) map[string]*T {
	found := make(map[string]*T, len(rows))
	for _, row := range rows {
		if r, ok := any(row).(interface{ GetUUID() string }); ok {
			found[r.GetUUID()] = row
		}
	}
	return found
}

func uniqueRoute(v *view) (found []Violation) {
	routes := byUUID(rowsIn[nbdb.LogicalRouterStaticRoute](v.Northbound, nbdb.LogicalRouterStaticRouteTable))
	for _, router := range v.routers {
		found = append(found, twins(v, router, router.StaticRoutes, routes, func(r *nbdb.LogicalRouterStaticRoute) string {
			policy := nbdb.LogicalRouterStaticRoutePolicyDstIP // OVN's default (ovn-nb(5))
			if r.Policy != nil {
				policy = *r.Policy
			}
			return fmt.Sprintf("prefix %s, policy %s, table %q", r.IPPrefix, policy, r.RouteTable)
		})...)
	}
	return found
}

func uniqueNAT(v *view) (found []Violation) {
	nats := byUUID(rowsIn[nbdb.NAT](v.Northbound, nbdb.NATTable))
	for _, router := range v.routers {
		found = append(found, twins(v, router, router.Nat, nats, func(n *nbdb.NAT) string {
			return fmt.Sprintf("type %s, external %s %s, logical %s, gateway port %s, match %q", n.Type, n.ExternalIP,
				n.ExternalPortRange, n.LogicalIP, text(n.GatewayPort), n.Match)
		})...)
	}
	return found
}

func uniqueACL(v *view) (found []Violation) {
	acls := byUUID(rowsIn[nbdb.ACL](v.Northbound, nbdb.ACLTable))
	alike := func(a *nbdb.ACL) string {
		text := fmt.Sprintf("direction %s, tier %d, priority %d, match %q", a.Direction, a.Tier, a.Priority, a.Match)
		// several policies may isolate the same pods
		if owner := ownerOf(a); topology.OfNetworkPolicy(owner) || topology.OfClusterPolicy(owner) {
			text += " of " + string(owner)
		}
		return text
	}
	for _, s := range v.switches {
		found = append(found, twins(v, s, s.ACLs, acls, alike)...)
	}
	for _, g := range rowsIn[nbdb.PortGroup](v.Northbound, nbdb.PortGroupTable) {
		found = append(found, twins(v, g, g.ACLs, acls, alike)...)
	}
	return found
}

func text(optional *string) string {
	if optional == nil {
		return "-"
	}
	return *optional
}
