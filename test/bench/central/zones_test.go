//go:build e2e

package central

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// The rows of docs/design/0001-interconnect.md as they were planned. They make this network one of several zones. The rows of
// pkg/topology differ in names, and have policies for egress IPs besides.
const (
	transitSwitch, transitRouter = "transit", "transit_router"
	// Tunnel keys of the two datapaths; 1 and 2 are the cluster router and the join switch.
	transitSwitchKey, transitRouterKey = 3, 4
	// transitNodeKeys + node ID is the tunnel key of a node's port on the transit switch and, if the node is in this
	// zone, on the transit router.
	transitNodeKeys = 16
	// sender is the one port through which the zone sends to others. Packets come in through the port of the
	// destination node.
	sender, senderKey = "zone-1", 16401
	// The link of the two routers has no switch; its tunnel keys are 2 on both sides.
	routerToTransit, transitToRouter, routersKey = "rtotr", "trtor", 2
)

var (
	transitNetwork = netip.MustParsePrefix("100.88.0.0/16")
	routersNetwork = netip.MustParsePrefix("100.89.0.0/30")
)

func transitAddress(node int) netip.Addr { return nth(transitNetwork.Addr(), 16+node) }

// remoteSubnet returns a remote node's subnet, and remoteJoin its gateway router's address on the remote join
// switch. Both ranges follow this zone's.
func (c *cluster) remoteSubnet(i int) netip.Prefix { return subnetOf(2*c.size.Nodes + i) }

func (c *cluster) remoteJoin(i int) netip.Prefix {
	return netip.PrefixFrom(nth(join.Addr(), 2*c.size.Nodes+i+2), join.Addr().BitLen())
}

func remoteName(i int) string { return "remote-" + nodeName(i) }

// remoteChassis returns a remote node's chassis by the number in its address.
func (c *cluster) remoteChassis(number int) string {
	return "chassis-" + remoteName(number-2*c.size.Nodes)
}

func switchRef(name string) unit.Ref {
	return unit.Ref{Table: nbdb.LogicalSwitchTable, UUID: unit.UUID(nbdb.LogicalSwitchTable, name)}
}

func routerRef(name string) unit.Ref {
	return unit.Ref{Table: nbdb.LogicalRouterTable, UUID: unit.UUID(nbdb.LogicalRouterTable, name)}
}

// transit returns the switch that all zones share, this zone's router on it, and the routes to this zone's pods.
func transit() unit.Unit {
	u := unit.Unit{Key: unit.NewKey("transit", "default"), Rows: []unit.Row{
		{Model: &nbdb.LogicalSwitch{UUID: switchRef(transitSwitch).UUID, Name: transitSwitch,
			OtherConfig: map[string]string{"requested-tnl-key": strconv.Itoa(transitSwitchKey),
				"interconn-ts": transitSwitch}}},
		// The router has many ports on one switch. Without this option northd would create flows for each pair of
		// ports, although no port sends to another.
		{Model: &nbdb.LogicalRouter{UUID: routerRef(transitRouter).UUID, Name: transitRouter,
			Options: map[string]string{"requested-tnl-key": strconv.Itoa(transitRouterKey),
				"dynamic_neigh_routers":         "true",
				"always_learn_from_arp_request": "false"}}},
	}}
	addRouterPort(&u, names.ClusterRouter, routerToTransit, nth(routersNetwork.Addr(), 1), routersNetwork.Bits(),
		routersKey, transitToRouter)
	addRouterPort(&u, transitRouter, transitToRouter, nth(routersNetwork.Addr(), 2), routersNetwork.Bits(), routersKey, routerToTransit)
	for _, inside := range []netip.Prefix{pods, join} {
		addRoute(&u, transitRouter, inside, nth(routersNetwork.Addr(), 1), transitToRouter)
	}
	addTransitPort(&u, sender, nth(transitNetwork.Addr(), 1), transitNetwork.Bits(), senderKey)
	return u
}

// localTransit returns the port where packets of other zones enter a node.
func localTransit(i int) unit.Unit {
	u := unit.Unit{Key: unit.NewKey("transit", nodeName(i))}
	address := transitAddress(i)
	// The port's network is a single address, because northd resolves every remote node for each port that could reach it.
	addTransitPort(&u, nodeName(i), address, address.BitLen(), transitNodeKeys+i+1)
	return u
}

func addTransitPort(u *unit.Unit, name string, address netip.Addr, bits, key int) {
	addRouterPort(u, transitRouter, "rtots-"+name, address, bits, key, "")
	port := &nbdb.LogicalSwitchPort{UUID: unit.UUID(nbdb.LogicalSwitchPortTable, "tstor-"+name), Name: "tstor-" +
		name, Type: "router", Addresses: []string{"router"},
		Options: map[string]string{"router-port": "rtots-" + name, "requested-tnl-key": strconv.Itoa(key)}}
	u.Rows = append(u.Rows, unit.Row{Model: port})
	u.Members = append(u.Members, unit.Membership{Parent: switchRef(transitSwitch), Column: "ports", Element: port.UUID})
}

func addRouterPort(u *unit.Unit, router, name string, address netip.Addr, bits, key int, peer string) {
	port := &nbdb.LogicalRouterPort{UUID: unit.UUID(nbdb.LogicalRouterPortTable, name), Name: name,
		MAC:      ipam.MAC([]netip.Addr{address}).String(),
		Networks: []string{netip.PrefixFrom(address, bits).String()}, Options: map[string]string{"requested-tnl-key": strconv.Itoa(key)}}
	if peer != "" {
		port.Peer = &peer
	}
	u.Rows = append(u.Rows, unit.Row{Model: port})
	u.Members = append(u.Members, unit.Membership{Parent: routerRef(router), Column: "ports", Element: port.UUID})
}

func addRoute(u *unit.Unit, router string, to netip.Prefix, hop netip.Addr, port string) {
	route := &nbdb.LogicalRouterStaticRoute{UUID: unit.UUID(nbdb.LogicalRouterStaticRouteTable,
		router+" transit "+to.String()), IPPrefix: to.String(), Nexthop: hop.String(), OutputPort: &port}
	u.Rows = append(u.Rows, unit.Row{Model: route})
	u.Members = append(u.Members, unit.Membership{Parent: routerRef(router), Column: "static_routes", Element: route.UUID})
}

// remoteNode returns a node of another zone: a port bound to its chassis, and the routes to its pods and to its
// gateway router.
func (c *cluster) remoteNode(i int) unit.Unit {
	number := c.size.Nodes + i
	name, address := "tstor-"+remoteName(i), transitAddress(number)
	port := &nbdb.LogicalSwitchPort{UUID: unit.UUID(nbdb.LogicalSwitchPortTable, name), Name: name, Type: "remote",
		Addresses: []string{ipam.MAC([]netip.Addr{address}).String() + " " + address.String()},
		Options: map[string]string{"requested-chassis": c.remoteChassis(2*c.size.Nodes + i),
			"requested-tnl-key": strconv.Itoa(transitNodeKeys + number + 1)}}
	u := unit.Unit{Key: unit.NewKey("transit", remoteName(i)), Rows: []unit.Row{{Model: port}},
		Members: []unit.Membership{{Parent: switchRef(transitSwitch), Column: "ports", Element: port.UUID}}}
	for _, to := range []netip.Prefix{c.remoteSubnet(i), c.remoteJoin(i)} {
		// A route to a whole cluster network would be less specific than the routes by source that lead pods
		// outside.
		addRoute(&u, names.ClusterRouter, to, nth(routersNetwork.Addr(), 2), routerToTransit)
		addRoute(&u, transitRouter, to, address, "rtots-"+sender)
	}
	return u
}

// zones makes this network one of two zones of the same size, and measures what the other zone costs.
func (w *world) zones() {
	w.Helper()
	flows := w.flows()
	w.one(transit())
	w.apply(w.size.Nodes, localTransit)
	w.sync()
	own := w.flows()
	w.note(float64(own-flows), true, "zone, Logical_Flow for own nodes")
	n := max(*rounds/5, 1)
	watcher := w.watch()
	defer watcher.Close()
	w.change(watcher, "remote node", n, w.join)
	w.register(2*w.size.Nodes+n, w.size.Nodes-n, w.remoteChassis, true)
	w.apply(w.size.Nodes-n, func(i int) unit.Unit { return w.remoteNode(n + i) })
	w.sync()
	w.note(float64(w.flows()-own)/float64(w.size.Nodes), true, "zone, Logical_Flow for each remote node")
	northd, began := w.cpu(w.central.NorthdPID()), time.Now()
	w.northd("inc-engine/recompute")
	w.sync()
	w.note((w.cpu(w.central.NorthdPID()) - northd).Seconds(), false, "zone, all anew, northd CPU s")
	w.Logf("all recomputed within %s", time.Since(began))
}

// join adds a node to the other zone.
func (w *world) join(i int) {
	w.Helper()
	w.register(2*w.size.Nodes+i, 1, w.remoteChassis, true)
	w.one(w.remoteNode(i))
}

func (w *world) flows() int {
	w.Helper()
	n, err := w.sb.Rows("Logical_Flow")
	w.must(err)
	return n
}

// TestZonesReachOneAnother runs ovn-trace on the rows of a small zone, because only working rows are worth
// measuring.
func TestZonesReachOneAnother(t *testing.T) {
	w := newWorld(t, Size{Nodes: 4, Ports: 8, LoadBalancers: 1})
	w.fill()
	w.central.RunNorthd()
	w.one(transit())
	w.apply(w.size.Nodes, localTransit)
	w.register(2*w.size.Nodes, w.size.Nodes, w.remoteChassis, true)
	w.apply(w.size.Nodes, w.remoteNode)
	w.sync()
	remote, node := w.size.Nodes-1, 1
	pod, there := names.PodPort(names.DefaultNetwork, namespaceOf(node), podName(node)), ipam.FirstPod(w.remoteSubnet(remote))
	for what, c := range map[string]struct {
		on, inport string
		mac        netip.Addr // address whose MAC is the destination
		from, to   netip.Addr
		port, want string
	}{
		"a pod to a pod of another zone": {nodeName(node), pod, ipam.Gateway(subnetOf(node)), w.podAddress(node),
			there, "8080", `output("tstor-` + remoteName(remote) + `")`},
		"its answer": {transitSwitch, "tstor-" + remoteName(remote), transitAddress(node), there,
			w.podAddress(node), "8080", `output("` + pod + `")`},
		"an answer for a gateway router of another zone": {nodeName(node), pod, ipam.Gateway(subnetOf(node)),
			w.podAddress(node), w.remoteJoin(remote).Addr(), "30000",
			`output("tstor-` + remoteName(remote) + `")`},
	} {
		source := ""
		if c.inport == pod {
			source = " && eth.src==" + ipam.MAC([]netip.Addr{c.from}).String()
		}
		got := w.central.Trace(c.on, `inport=="`+c.inport+`"`+source+` && eth.dst==`+ipam.MAC(
			[]netip.Addr{c.mac}).String()+` && ip4.src==`+c.from.String()+` && ip4.dst==`+c.to.String()+
			` && ip.ttl==64 && tcp.dst==`+c.port, "est,rpl", "est,rpl", "est,rpl") // a namespace's pods are isolated except for replies
		if !strings.Contains(got, c.want) {
			t.Errorf("%s:\n%s\nwant %s", what, got, c.want)
		}
	}
}
