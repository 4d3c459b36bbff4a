package topology

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// Priorities of the policies of floating addresses on the cluster router. Ordinary pods leave by the route of their
// node's subnet. A floating address is in no node's subnet, so a policy sends its packets out.
const (
	floatingInsidePolicy = 104 // packets to pods and routers keep their route
	floatingPolicy       = 103 // packets of floating addresses leave by the pod's own node
	floatingLastPolicy   = 99  // packets that no EgressIP takes, of pods with an EgressIP
)

// wayBackNAT is the priority of the translations for pods that call a translated address. They precede the translations
// of EgressIPs.
const wayBackNAT = 300

// addFloating adds the routes that floating addresses need on the cluster router. OVN drops a packet without a route
// before it evaluates policies, so a source route of the whole network makes these packets reach the policies of their
// address. It loses against every more specific route, and leads to the refusing port.
func addFloating(u *unit.Unit, n facts.Network) {
	for _, join := range n.Join {
		var inside []netip.Prefix
		for _, network := range slices.Concat(n.Clusters, n.Join) {
			if network.Addr().Is4() == join.Addr().Is4() {
				inside = append(inside, network.Masked())
			}
		}
		needed := false
		for _, network := range n.FloatingNetworks {
			if network.Addr().Is4() == join.Addr().Is4() {
				policy := nbdb.LogicalRouterStaticRoutePolicySrcIP
				addRoute(u, names.ClusterRouter, &nbdb.LogicalRouterStaticRoute{IPPrefix: network.Masked().String(),
					Nexthop: join.Masked().Addr().String(), Policy: &policy})
				needed = true
			}
		}
		if needed {
			addPolicy(u, &nbdb.LogicalRouterPolicy{
				UUID:     unit.UUID(nbdb.LogicalRouterPolicyTable, "floating inside "+names.Family(join.Addr())),
				Priority: floatingInsidePolicy, Match: ovnexpr.ToNetworks(inside...).String(), Action: nbdb.LogicalRouterPolicyActionAllow})
		}
	}
}

// addFloating adds the routes to the pod's floating addresses, their policies, and the translations. The UUIDs of the
// rows do not depend on the pod, so the engine gives an address to its next pod only when the previous pod's unit no
// longer has it.
func (p Pod) addFloating(u *unit.Unit, port *nbdb.LogicalSwitchPort) {
	for _, address := range p.Floating {
		outside := names.RouterToSwitch(p.Node)
		addRoute(u, names.ClusterRouter, &nbdb.LogicalRouterStaticRoute{
			IPPrefix: netip.PrefixFrom(address, address.BitLen()).String(), Nexthop: p.nextHopTo(address).String(), OutputPort: &outside})
		p.addWayOut(u, address)
	}
	for _, address := range p.Translated {
		i := slices.IndexFunc(p.Addresses, func(a netip.Addr) bool { return a.Is4() == address.Is4() })
		if i < 0 {
			continue
		}
		p.addTranslation(u, &nbdb.NAT{UUID: unit.UUID(nbdb.NATTable, "floating "+address.String()), Type: nbdb.NATTypeDNATAndSNAT,
			ExternalIP: address.String(), LogicalIP: p.Addresses[i].String()})
		p.addWayBack(u, address, p.Addresses[i])
	}
	for key, addresses := range map[string][]netip.Addr{ovnexpr.FloatingKey: p.Floating, ovnexpr.TranslatedKey: p.Translated} {
		if len(addresses) > 0 {
			port.ExternalIDs[key] = ovnexpr.JoinAddresses(addresses)
		}
	}
}

// addWayBack makes the replies to pods that call a translated address return through the gateway router, whose address
// the pod sees as their source. Without it, the pod sees the node's address, and its replies go to the node. Clients
// outside keep their address.
func (p Pod) addWayBack(u *unit.Unit, address, inside netip.Addr) {
	like := func(a netip.Addr) bool { return a.Is4() == address.Is4() }
	i := slices.IndexFunc(p.WaysOut, like)
	if i < 0 || slices.IndexFunc(p.Translated, like) != slices.Index(p.Translated, address) {
		return // another address of the family has it already
	}
	for _, cluster := range p.Clusters {
		if like(cluster.Addr()) {
			p.addTranslation(u, &nbdb.NAT{UUID: unit.UUID(nbdb.NATTable, "floating "+address.String()+" from "+cluster.Masked().String()),
				Type: nbdb.NATTypeSNAT, ExternalIP: p.WaysOut[i].String(), LogicalIP: cluster.Masked().String(), Priority: wayBackNAT,
				Match: ovnexpr.ToNetworks(netip.PrefixFrom(inside, inside.BitLen())).String()})
		}
	}
}

func (p Pod) addTranslation(u *unit.Unit, nat *nbdb.NAT) {
	u.Rows = append(u.Rows, unit.Row{Model: nat})
	u.Members = append(u.Members, unit.Membership{Parent: routerRef(names.GatewayRouter(p.Node)), Column: "nat",
		Element: nat.UUID, Optional: true})
}

// nextHopTo returns the address whose MAC the cluster router resolves for a floating address. Its MAC never changes, so
// the router's knowledge of an earlier pod with the floating address is never stale: the pod's MAC is made from its
// first IPv4 address, and the link-local address is made from the MAC.
func (p Pod) nextHopTo(address netip.Addr) netip.Addr {
	if address.Is4() {
		for _, a := range p.Floating {
			if a.Is4() {
				return a
			}
		}
	}
	return ipam.LinkLocal(p.MAC)
}

// addWayOut sends packets of a floating address out by the pod's own node. With an EgressIP, only the packets that the
// EgressIP leaves to the node: replies, and packets to nodes.
func (p Pod) addWayOut(u *unit.Unit, address netip.Addr) {
	i := slices.IndexFunc(p.WaysOut, func(a netip.Addr) bool { return a.Is4() == address.Is4() })
	if i < 0 {
		return
	}
	way := func(priority int, match string) {
		addPolicy(u, &nbdb.LogicalRouterPolicy{
			UUID:     unit.UUID(nbdb.LogicalRouterPolicyTable, "floating "+address.String()+" "+strconv.Itoa(priority)),
			Priority: priority, Match: match, Action: nbdb.LogicalRouterPolicyActionReroute, Nexthops: []string{p.WaysOut[i].String()}})
	}
	from := ovnexpr.Networks(ovnexpr.Source, netip.PrefixFrom(address, address.BitLen())).String()
	if p.EgressIP == "" {
		way(floatingPolicy, from)
		return
	}
	way(floatingPolicy, from+" && ("+strings.Join([]string{ovnexpr.Marked(strconv.Itoa(replyMark)),
		ovnexpr.ToSet(names.Inside(names.Family(address)), address)}, " || ")+")")
	way(floatingLastPolicy, from)
}

// translates reports whether a floating address replaces the pod's EgressIP in a family.
func (p Pod) translates(like netip.Addr) bool {
	return slices.ContainsFunc(p.Translated, func(a netip.Addr) bool { return a.Is4() == like.Is4() })
}
