//go:build e2e

package central

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// The rows of docs/design/interconnect.md, which the operator does not write yet: what makes this network one zone of several.
const (
	transitSwitch = "transit"
	transitKey    = "3" // of the datapath; 1 and 2 are the cluster router and the join switch
	// Keys of ports: of the switch and of the router, + node ID.
	transitNodeKeys, routerTransitKeys = 16, 16384
	// sender is the one port by which the zone sends to others; packets come in by the port of the node that they are for.
	sender, senderKey, senderRouterKey = "zone-1", 16401, 2
)

var transitNetwork = netip.MustParsePrefix("100.88.0.0/16")

func transitAddress(node int) netip.Addr { return nth(transitNetwork.Addr(), 16+node) }

// remoteSubnet is that of a node elsewhere: behind those of this zone.
func (c *cluster) remoteSubnet(i int) netip.Prefix { return subnetOf(2*c.size.Nodes + i) }

func clusterRouter() unit.Ref {
	return unit.Ref{Table: nbdb.LogicalRouterTable, UUID: unit.UUID(nbdb.LogicalRouterTable, names.ClusterRouter)}
}

func transit() unit.Ref {
	return unit.Ref{Table: nbdb.LogicalSwitchTable, UUID: unit.UUID(nbdb.LogicalSwitchTable, transitSwitch)}
}

// transitUnit is the switch that every zone has, and the port by which this one sends.
func transitUnit() unit.Unit {
	u := unit.Unit{Key: unit.NewKey("transit", "switch"), Rows: []unit.Row{{Model: &nbdb.LogicalSwitch{UUID: transit().UUID, Name: transitSwitch,
		OtherConfig: map[string]string{"requested-tnl-key": transitKey, "interconn-ts": transitSwitch}}}}}
	addTransitPort(&u, sender, netip.PrefixFrom(nth(transitNetwork.Addr(), 1), transitNetwork.Bits()), senderKey, senderRouterKey)
	return u
}

// localTransit is where packets of other zones come in at a node. It has a network of its address alone: one of the whole switch's for each
// node would have northd resolve every remote node for each of them.
func localTransit(i int) unit.Unit {
	u := unit.Unit{Key: unit.NewKey("transit", nodeName(i))}
	addTransitPort(&u, nodeName(i), netip.PrefixFrom(transitAddress(i), 32), transitNodeKeys+i+1, routerTransitKeys+i+1)
	return u
}

func addTransitPort(u *unit.Unit, name string, address netip.Prefix, key, routerKey int) {
	rtots := &nbdb.LogicalRouterPort{UUID: unit.UUID(nbdb.LogicalRouterPortTable, "rtots-"+name), Name: "rtots-" + name, MAC: ipam.MAC([]netip.Addr{address.Addr()}).String(),
		Networks: []string{address.String()}, Options: map[string]string{"requested-tnl-key": strconv.Itoa(routerKey)}}
	tstor := &nbdb.LogicalSwitchPort{UUID: unit.UUID(nbdb.LogicalSwitchPortTable, "tstor-"+name), Name: "tstor-" + name, Type: "router", Addresses: []string{"router"},
		Options: map[string]string{"router-port": rtots.Name, "requested-tnl-key": strconv.Itoa(key)}}
	u.Rows = append(u.Rows, unit.Row{Model: rtots}, unit.Row{Model: tstor})
	u.Members = append(u.Members, unit.Membership{Parent: clusterRouter(), Column: "ports", Element: rtots.UUID}, unit.Membership{Parent: transit(), Column: "ports", Element: tstor.UUID})
}

// remoteNode is a node of another zone: a port that is bound to its chassis, and the ways to its pods and to its gateway router.
func (c *cluster) remoteNode(i int) unit.Unit {
	number := c.size.Nodes + i
	name, address := "tstor-"+remoteName(i), transitAddress(number)
	port := &nbdb.LogicalSwitchPort{UUID: unit.UUID(nbdb.LogicalSwitchPortTable, name), Name: name, Type: "remote",
		Addresses: []string{ipam.MAC([]netip.Addr{address}).String() + " " + address.String()},
		Options:   map[string]string{"requested-chassis": "chassis-" + remoteName(i), "requested-tnl-key": strconv.Itoa(transitNodeKeys + number + 1)}}
	u := unit.Unit{Key: unit.NewKey("transit", remoteName(i)), Rows: []unit.Row{{Model: port}}, Members: []unit.Membership{{Parent: transit(), Column: "ports", Element: port.UUID}}}
	outside := "rtots-" + sender
	for _, to := range []netip.Prefix{c.remoteSubnet(i), netip.PrefixFrom(nth(join.Addr(), 2*c.size.Nodes+i+2), 32)} {
		route := &nbdb.LogicalRouterStaticRoute{UUID: unit.UUID(nbdb.LogicalRouterStaticRouteTable, "transit "+to.String()), IPPrefix: to.String(), Nexthop: address.String(), OutputPort: &outside}
		u.Rows = append(u.Rows, unit.Row{Model: route})
		u.Members = append(u.Members, unit.Membership{Parent: clusterRouter(), Column: "static_routes", Element: route.UUID})
	}
	return u
}

func remoteName(i int) string { return "remote-" + nodeName(i) }

// zones makes this network one zone of two of the same size, and measures what the other one costs it.
func (w *world) zones() {
	w.Helper()
	flows := w.flows()
	w.one(transitUnit())
	w.apply(w.size.Nodes, localTransit)
	w.sync()
	own := w.flows()
	w.note(float64(own-flows), true, "zone, Logical_Flow for own nodes")
	n := max(*rounds/5, 1)
	watcher := w.watch()
	defer watcher.Close()
	w.change(watcher, "remote node", n, w.join)
	for i := n; i < w.size.Nodes; i++ {
		w.must(w.sb.Register("chassis-"+remoteName(i), encapOf(2*w.size.Nodes+i).String(), true))
	}
	w.apply(w.size.Nodes-n, func(i int) unit.Unit { return w.remoteNode(n + i) })
	w.sync()
	w.note(float64(w.flows()-own)/float64(w.size.Nodes), true, "zone, Logical_Flow for each remote node")
	northd, began := w.cpu(w.central.NorthdPID()), time.Now()
	w.northd("inc-engine/recompute")
	w.sync()
	w.note((w.cpu(w.central.NorthdPID()) - northd).Seconds(), false, "zone, all anew, northd CPU s")
	w.Logf("all anew within %s", time.Since(began))
	w.reachesRemote()
}

// join is a node that comes to the other zone.
func (w *world) join(i int) {
	w.Helper()
	w.must(w.sb.Register("chassis-"+remoteName(i), encapOf(2*w.size.Nodes+i).String(), true))
	w.one(w.remoteNode(i))
}

func (w *world) flows() int {
	w.Helper()
	n, err := w.sb.Rows("Logical_Flow")
	w.must(err)
	return n
}

// reachesRemote asks ovn-trace where a packet for a pod of the other zone goes: rows that are nothing worth are not worth measuring either.
func (w *world) reachesRemote() {
	w.Helper()
	last := w.size.Nodes - 1
	from, to := ipam.MAC([]netip.Addr{w.podAddress(0)}), ipam.MAC([]netip.Addr{ipam.Gateway(subnetOf(0))})
	port := names.PodPort(names.DefaultNetwork, namespaceOf(0), podName(0))
	got := w.central.Trace(nodeName(0), `inport=="`+port+`" && eth.src==`+from.String()+` && eth.dst==`+to.String()+` && ip4.src==`+w.podAddress(0).String()+
		` && ip4.dst==`+ipam.FirstPod(w.remoteSubnet(last)).String()+` && ip.ttl==64 && tcp.dst==8080`)
	if want := `output("tstor-` + remoteName(last) + `")`; !strings.Contains(got, want) {
		w.Errorf("a packet for a pod of another zone: %s\nwant %s", got, want)
	}
}
