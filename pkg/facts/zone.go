package facts

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

// transitNetworks have an address of each node on the switch between the zones, and routerNetworks the addresses of the link between a
// zone's two routers.
var (
	transitNetworks = []netip.Prefix{netip.MustParsePrefix("100.88.0.0/16"), netip.MustParsePrefix("fd97::/64")}
	routerNetworks  = []netip.Prefix{netip.MustParsePrefix("100.89.0.0/30"), netip.MustParsePrefix("fd97:1::/126")}
)

// transitBase + node ID is the number of a node's address in transitNetworks. The addresses before belong to the zones' senders.
const transitBase = 16

// NodeZone returns the zone in which a node should be, and the addresses of its databases. A node enters a zone only when the zone's
// databases and operator work, and stays in its zone until it can enter the next one.
func NodeZone(cn *networkv1alpha1.ClusterNetwork, node labels.Set, have networkv1alpha1.NodeNetworkSpec) (
	zone networkv1alpha1.ZoneName, databases []networkv1alpha1.IP) {
	zone = networkv1alpha1.ZoneOf(cn.Spec.Zones, node)
	if zone == "" {
		return "", nil
	}
	var state networkv1alpha1.ZoneStatus // empty while the zone has no state yet
	if i := slices.IndexFunc(cn.Status.Zones, func(z networkv1alpha1.ZoneStatus) bool { return z.Name == zone }); i >= 0 {
		state = cn.Status.Zones[i]
	}
	reachable := len(state.Addresses) > 0
	switch {
	case zone != have.Zone && (!state.Ready || !reachable):
		return have.Zone, have.Databases
	case !reachable:
		return zone, have.Databases
	}
	return zone, state.Addresses
}

// transitAddresses returns a node's addresses on the switch between the zones, in the families of pods.
func transitAddresses(id int, plan Plan) (all []networkv1alpha1.IP) {
	for _, network := range familiesOf(transitNetworks, plan.PodNetworks()) {
		all = append(all, networkv1alpha1.IP(ipam.Host(network, transitBase+id).String()))
	}
	return all
}

// familiesOf returns the prefixes of the families that the networks have.
func familiesOf(prefixes, networks []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool {
		return !slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Addr().Is4() == p.Addr().Is4() })
	})
}

// checkTransit returns an error for a network that overlaps the networks between the zones.
func checkTransit(zones []networkv1alpha1.Zone, networks []netip.Prefix) error {
	if len(zones) == 0 {
		return nil
	}
	for _, n := range networks {
		for _, transit := range slices.Concat(transitNetworks, routerNetworks) {
			if n.Overlaps(transit) {
				return fmt.Errorf("spec.zones: %s overlaps %s, which connects the zones", n, transit)
			}
		}
	}
	return nil
}

// Transit holds the facts for topology.TransitUnit: how a zone is connected to the others.
type Transit struct {
	// Sender is the number of the zone in the spec, from 1; 0 is the default zone.
	Sender int
	// Senders are the addresses of the zone's port that sends to others, with the length of their networks.
	Senders []netip.Prefix
	// Near are the addresses of the cluster router on the link to the transit router, and Far the transit router's.
	Near, Far []netip.Prefix
	// Clusters are the networks of pods, and Join the networks of the join switch.
	Clusters, Join []netip.Prefix
}

// Transit returns the facts of a zone's connection to the others. ok is false without zones.
func (p Plan) Transit(cn *networkv1alpha1.ClusterNetwork, zone networkv1alpha1.ZoneName) (t Transit, ok bool) {
	if len(cn.Spec.Zones) == 0 {
		return t, false
	}
	t = Transit{Clusters: p.PodNetworks(), Join: p.joinSubnets(),
		Sender: 1 + slices.IndexFunc(cn.Spec.Zones, func(z networkv1alpha1.Zone) bool { return z.Name == zone })}
	for _, network := range familiesOf(transitNetworks, t.Clusters) {
		t.Senders = append(t.Senders, netip.PrefixFrom(ipam.Host(network, 1+t.Sender), network.Bits()))
	}
	for _, link := range familiesOf(routerNetworks, t.Clusters) {
		t.Near = append(t.Near, netip.PrefixFrom(ipam.Host(link, 1), link.Bits()))
		t.Far = append(t.Far, netip.PrefixFrom(ipam.Host(link, 2), link.Bits()))
	}
	return t, true
}

// TransitNode holds the facts for topology.TransitNodeUnit.
type TransitNode struct {
	Node Node
	// Elsewhere means that the node is in another zone.
	Elsewhere bool
	// Addresses are the node's addresses on the switch between the zones.
	Addresses []netip.Addr
	// Sender is that of the unit's zone.
	Sender int
	// Join are the addresses of the node's gateway router on the join switch.
	Join []netip.Addr
	// Tunnels are the addresses to which other nodes tunnel.
	Tunnels []netip.Addr
	// Far are the addresses of the zone's transit router on the link to the cluster router.
	Far []netip.Addr
}

// ParseTransitNode reads the facts of a node that other zones reach. ok is false while the node has no addresses for that, or no chassis.
func ParseTransitNode(nn *networkv1alpha1.NodeNetwork, zone Transit, elsewhere bool) (n TransitNode, ok bool, err error) {
	if len(nn.Spec.TransitAddresses) == 0 || nn.Status.Chassis == "" || nn.Status.EncapIP == "" {
		return n, false, nil
	}
	n = TransitNode{Elsewhere: elsewhere, Sender: zone.Sender, Far: ipam.Addresses(zone.Far)}
	if n.Node, err = ParseNodeNetwork(nn); err != nil {
		return n, false, err
	}
	for _, list := range []struct {
		field string
		from  []networkv1alpha1.IP
		to    *[]netip.Addr
	}{
		{"spec.transitAddresses", nn.Spec.TransitAddresses, &n.Addresses},
		{"status.encapIP", []networkv1alpha1.IP{nn.Status.EncapIP}, &n.Tunnels},
		{"status.furtherEncapIPs", nn.Status.FurtherEncapIPs, &n.Tunnels},
	} {
		for _, text := range list.from {
			address, err := text.Addr()
			if err != nil {
				return n, false, fmt.Errorf("NodeNetwork %s: %s: %w", nn.Name, list.field, err)
			}
			*list.to = append(*list.to, address)
		}
	}
	for _, text := range nn.Spec.JoinAddresses {
		join, err := text.Prefix()
		if err != nil {
			return n, false, fmt.Errorf("NodeNetwork %s: spec.joinAddresses: %w", nn.Name, err)
		}
		n.Join = append(n.Join, join.Addr())
	}
	return n, true, nil
}

// ReachBy sets how the gateway of a node elsewhere is reached from a zone. If the zone is not connected, the gateway is not reached.
func (g *Gateway) ReachBy(zone Transit, nn *networkv1alpha1.NodeNetwork) {
	g.Elsewhere, g.Transit, g.Far = true, nil, ipam.Addresses(zone.Far)
	for _, text := range nn.Spec.TransitAddresses {
		if address, err := text.Addr(); err == nil { // the operator has written it
			g.Transit = append(g.Transit, address)
		}
	}
}
