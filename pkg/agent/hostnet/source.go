package hostnet

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// firstTable is the first of the tables that Weft uses, one for each link by its index.
	firstTable = 840_000
	// sourcePriority is the priority of the rules that choose a table.
	sourcePriority = 8400
	// lastResort is the metric of the route for destinations to which the link has no route.
	lastResort = 1<<31 - 1
)

// Sources is what RouteSources did.
type Sources struct {
	Routes                  []string // the wanted routes, sorted
	WroteRoutes, WroteRules bool
}

// RouteSources makes forwarded packets with a source address leave by a link, by the routes that the main table has over that
// link. Where it has none, they are unreachable. It removes what an earlier call made for other addresses.
func RouteSources(links map[netip.Addr]string) (done Sources, err error) {
	tables, indexes := map[netip.Addr]int{}, map[int]bool{} // table of each address; links in use
	for address, name := range links {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return done, fmt.Errorf("link %s: %w", name, err)
		}
		tables[address], indexes[link.Attrs().Index] = firstTable+link.Attrs().Index, true
	}
	var want []netlink.Route
	for index := range indexes {
		routes, err := sourceRoutes(index)
		if err != nil {
			return done, err
		}
		want = append(want, routes...)
	}
	for _, r := range want {
		done.Routes = append(done.Routes, identity(r))
	}
	slices.Sort(done.Routes)
	if done.WroteRoutes, err = applySourceRoutes(want); err != nil {
		return done, err
	}
	done.WroteRules, err = applySourceRules(tables)
	return done, err
}

// sourceRoutes returns a link's own table.
func sourceRoutes(index int) (want []netlink.Route, err error) {
	table := firstTable + index
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		main, err := complete(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{LinkIndex: index, Table: unix.RT_TABLE_MAIN},
				netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, r := range main {
			if r.Type == unix.RTN_UNICAST {
				want = append(want, netlink.Route{LinkIndex: index, Table: table, Protocol: protocol, Family: family, Dst: r.Dst, Gw: r.Gw,
					Scope: r.Scope, Priority: r.Priority, Type: r.Type, Flags: r.Flags & int(netlink.FLAG_ONLINK)})
			}
		}
		everywhere := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if family == netlink.FAMILY_V6 {
			everywhere = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		want = append(want, netlink.Route{Table: table, Protocol: protocol, Family: family, Dst: ipNet(everywhere), Type: unix.RTN_UNREACHABLE,
			Priority: lastResort})
	}
	return want, nil
}

// identity is what distinguishes the routes of a table.
func identity(r netlink.Route) string {
	return fmt.Sprint(r.Table, prefixOf(r.Dst).Bits(), " ", r.Family, addrOf(destination(r)), addrOf(r.Gw), r.Priority, r.Type)
}

func destination(r netlink.Route) []byte {
	if r.Dst == nil {
		return nil
	}
	return r.Dst.IP
}

func applySourceRoutes(want []netlink.Route) (wrote bool, err error) {
	missing := map[string]netlink.Route{}
	for _, r := range want {
		missing[identity(r)] = r
	}
	have, err := complete(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: protocol, Table: unix.RT_TABLE_UNSPEC},
			netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return false, fmt.Errorf("list routes: %w", err)
	}
	for i := range have {
		r := have[i]
		if r.Table < firstTable {
			continue
		}
		if _, ok := missing[identity(r)]; ok {
			delete(missing, identity(r))
			continue
		}
		wrote = true
		if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			return wrote, fmt.Errorf("remove route %s of table %d: %w", r.Dst, r.Table, err)
		}
	}
	// Routes of a link's own network come before the routes by its neighbours.
	for _, gateways := range []bool{false, true} {
		for _, r := range missing {
			if (r.Gw != nil) != gateways {
				continue
			}
			wrote = true
			if err := netlink.RouteReplace(&r); err != nil {
				return wrote, fmt.Errorf("add route %s of table %d: %w", r.Dst, r.Table, err)
			}
		}
	}
	return wrote, nil
}

func applySourceRules(want map[netip.Addr]int) (wrote bool, err error) {
	have, err := complete(func() ([]netlink.Rule, error) { return netlink.RuleList(netlink.FAMILY_ALL) })
	if err != nil {
		return false, fmt.Errorf("list rules: %w", err)
	}
	there := map[netip.Addr]bool{}
	for i := range have {
		r := have[i]
		if r.Protocol != uint8(protocol) || r.Priority != sourcePriority || r.Src == nil {
			continue
		}
		source := prefixOf(r.Src).Addr()
		if want[source] == r.Table {
			there[source] = true
			continue
		}
		wrote = true
		if err := netlink.RuleDel(&r); err != nil && !errors.Is(err, unix.ENOENT) {
			return wrote, fmt.Errorf("remove rule %s: %w", strings.TrimSpace(r.String()), err)
		}
	}
	for source, table := range want {
		if there[source] {
			continue
		}
		wrote = true
		rule := netlink.NewRule()
		rule.Src, rule.Table = ipNet(netip.PrefixFrom(source, source.BitLen())), table
		rule.Priority, rule.Protocol = sourcePriority, uint8(protocol)
		if source.Is6() {
			rule.Family = netlink.FAMILY_V6
		}
		if err := netlink.RuleAdd(rule); err != nil && !errors.Is(err, unix.EEXIST) {
			return wrote, fmt.Errorf("add rule for %s: %w", source, err)
		}
	}
	return wrote, nil
}
