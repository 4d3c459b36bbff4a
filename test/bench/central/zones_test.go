//go:build e2e

package central

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/install/chassis"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// newCluster describes a cluster of a size. The measured part is the default zone. Even without zones, the facts
// of its connection to another zone are there, because divide adds one.
func newCluster(t *testing.T, s Size) *cluster {
	t.Helper()
	cn := &networkv1alpha1.ClusterNetwork{}
	cn.Spec.ClusterNetwork = []networkv1alpha1.ClusterNetworkEntry{{CIDR: networkv1alpha1.CIDR(pods.String()), HostPrefix: 24}}
	cn.Spec.JoinSubnet = []networkv1alpha1.CIDR{networkv1alpha1.CIDR(join.String())}
	for i := range max(s.Zones-1, 1) {
		cn.Spec.Zones = append(cn.Spec.Zones, networkv1alpha1.Zone{Name: networkv1alpha1.ZoneName(fmt.Sprintf("zone-%d", i+1))})
	}
	plan, err := facts.ParseClusterNetwork(cn)
	if err != nil {
		t.Fatal(err)
	}
	zone, _ := plan.Transit(cn, "")
	return &cluster{size: s, plan: plan, zone: zone}
}

// node returns the rows of a node: all rows of a node of the measured part, and what its database needs of a node
// elsewhere.
func (c *cluster) node(i int) []unit.Unit {
	if c.own(i) {
		return c.nodeHere(i)
	}
	return c.nodeElsewhere(i)
}

func (c *cluster) nodeHere(i int) []unit.Unit {
	units := []unit.Unit{topology.NodeUnit(node(i)), gateway(i)}
	if c.size.Zones > 1 {
		units = append(units, c.transitNode(i, false))
	}
	return units
}

func (c *cluster) nodeElsewhere(i int) []unit.Unit {
	return []unit.Unit{topology.Elsewhere(topology.NodeUnit(node(i))), topology.Elsewhere(gateway(i)), c.transitNode(i, true)}
}

// transitNode returns the rows by which a node and the nodes of other zones reach each other.
func (c *cluster) transitNode(i int, elsewhere bool) unit.Unit {
	nn := &networkv1alpha1.NodeNetwork{}
	nn.Name = nodeName(i)
	nn.Status.Chassis, nn.Status.EncapIP = chassisName(i), networkv1alpha1.IP(encapOf(i).String())
	have := networkv1alpha1.NodeNetworkSpec{NodeID: int32(node(i).ID),
		PodSubnets: []networkv1alpha1.CIDR{networkv1alpha1.CIDR(subnetOf(i).String())}}
	var err error
	if nn.Spec, err = facts.NodeSpec(have, c.plan, nil, facts.Settings{Zoned: true}); err != nil {
		panic(err) // the plan has room for every number of a node
	}
	read, ok, err := facts.ParseTransitNode(nn, c.zone, elsewhere)
	if err != nil || !ok {
		panic(fmt.Sprint("a node has no transit addresses: ", err))
	}
	return topology.TransitNodeUnit(read)
}

// connect adds the switch between the zones, and starts the copy of the chassis of nodes elsewhere.
func (w *world) connect() {
	w.Helper()
	w.one(topology.TransitUnit(w.zone))
	done := make(chan struct{})
	go func() {
		defer close(done)
		chassis.Run(w.Context(), chassis.Options{Northbound: []string{w.central.NB.Endpoint()}, Southbound: w.central.SB.Endpoint(),
			Log: logr.Discard()})
	}()
	w.Cleanup(func() { <-done }) // the test's context has ended by then
}

// join adds a node of another zone, and returns when the southbound database has its chassis.
func (w *world) join(i int) {
	w.Helper()
	w.one(w.nodeElsewhere(i)...)
	w.awaitChassis(i)
}

func (w *world) awaitChassis(node int) {
	w.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		found, err := w.sb.HasChassis(chassisName(node))
		w.must(err)
		if found {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("the southbound database has no chassis %s", chassisName(node))
		}
	}
}

// divide makes this network, which had no zones, one of two zones with equally many nodes. It measures what the nodes
// of the other zone cost. That zone has no pods until the change "pod elsewhere".
func (w *world) divide() {
	w.Helper()
	flows := w.flows()
	w.connect()
	w.apply(w.size.Nodes, func(i int) []unit.Unit { return []unit.Unit{w.transitNode(i, false)} })
	w.sync()
	own := w.flows()
	w.note(float64(own-flows), true, "zone, Logical_Flow for own nodes")
	n, first := nodeRounds(), 2*w.size.Nodes // beyond the nodes that came
	watcher := w.watch()
	defer watcher.Close()
	w.change(watcher, "node elsewhere", n, func(i int) { w.join(first + i) })
	w.change(watcher, "pod elsewhere", *rounds, func(i int) { w.one(topology.PodElsewhereUnit(w.podOn(w.newPod(i), first))) })
	w.apply(w.size.Nodes-n, func(i int) []unit.Unit { return w.nodeElsewhere(first + n + i) })
	for i := range w.size.Nodes {
		w.awaitChassis(first + i)
	}
	w.sync()
	w.note(float64(w.flows()-own)/float64(w.size.Nodes), true, "zone, Logical_Flow for each node elsewhere")
	northd, began := w.cpu(w.central.NorthdPID()), time.Now()
	w.northd("inc-engine/recompute")
	w.sync()
	w.note((w.cpu(w.central.NorthdPID()) - northd).Seconds(), false, "zone, all anew, northd CPU s")
	w.Logf("all recomputed within %s", time.Since(began))
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
	w := newWorld(t, Size{Nodes: 8, Ports: 16, LoadBalancers: 1, Zones: 2})
	w.fill()
	w.central.RunNorthd()
	w.sync()
	const here, there = 2, 5 // a pod and its node in the measured part, and a pod and its node elsewhere
	port := w.port(here)
	leave := path{on: nodeName(here), inport: port, source: ipam.MAC([]netip.Addr{w.podAddress(here)}).String(),
		destination: ipam.MAC([]netip.Addr{ipam.Gateway(subnetOf(here))}).String()}
	enter := path{on: names.TransitSwitch, inport: names.TransitSwitchPort(nodeName(there)),
		destination: ipam.MAC([]netip.Addr{w.transitAddress(here)}).String()}
	tunnel, answer := `output("`+names.TransitSwitchPort(nodeName(there))+`")`, []string{"est,rpl", "est,rpl", "est,rpl"}
	for what, c := range map[string]struct {
		path
		from, to netip.Addr
		port     int
		states   []string // of connection tracking; nil is a new connection
		want     string
	}{
		"a pod to a pod elsewhere": {leave, w.podAddress(here), w.podAddress(there), 8080, nil, tunnel},
		"its answer":               {enter, w.podAddress(there), w.podAddress(here), 33000, answer, `output("` + port + `")`},
		"a pod elsewhere by a port that the policy allows": {enter, w.podAddress(there), w.podAddress(here), 8080, nil,
			`output("` + port + `")`},
		"an answer for a gateway router elsewhere": {leave, w.podAddress(here), nth(join.Addr(), there+2), 30000, answer, tunnel},
	} {
		if got := w.trace(c.path, c.from, c.to, c.port, c.states); !strings.Contains(got, c.want) {
			t.Errorf("%s:\n%s\nwant %s", what, got, c.want)
		}
	}
	if got := w.trace(enter, w.podAddress(there), w.podAddress(here), 9090, nil); strings.Contains(got, "output") {
		t.Errorf("a pod elsewhere by a port that the policy does not allow:\n%s\nwant no output", got)
	}
}

// transitAddress returns a node's address on the switch between the zones.
func (c *cluster) transitAddress(node int) netip.Addr {
	const base = 16 // of facts.Transit: the addresses before belong to the zones' sending ports
	return nth(c.zone.Senders[0].Masked().Addr(), base+node+1)
}

// path is where a packet enters the logical network, with its MACs. Without a source, the packet comes from a router.
type path struct{ on, inport, source, destination string }

// trace runs ovn-trace for a TCP packet.
func (w *world) trace(p path, from, to netip.Addr, port int, states []string) string {
	w.Helper()
	match := fmt.Sprintf("inport==%q && eth.dst==%s && ip4.src==%s && ip4.dst==%s && ip.ttl==64 && tcp.dst==%d",
		p.inport, p.destination, from, to, port)
	if p.source != "" {
		match += " && eth.src==" + p.source
	}
	return w.central.Trace(p.on, match, states...)
}
