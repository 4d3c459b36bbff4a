package policyoracle

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

var flagTraces = flag.Int("traces", 60, "number of connections to trace through a real northd's flows")

// perTracedCluster is the number of connections traced in each cluster.
const perTracedCluster = 30

// TestTraces compares the reference with OVN itself: ovn-northd makes logical flows of the rows, and ovn-trace
// traces a packet through them.
func TestTraces(t *testing.T) {
	central := ovndbtest.StartCentral(t)
	engine := startEngine(t, central)
	denied, decided := 0, 0
	for seed := *flagSeed; decided < *flagTraces; seed++ {
		s := newSource(seed)
		c := s.cluster()
		withAdmins(s, c)
		tuples := s.tuples(c, min(perTracedCluster, *flagTraces-decided))
		if len(c.Policies)+len(c.clusterPolicies()) == 0 || len(tuples) == 0 {
			continue
		}
		units, err := compile(c)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, engine, units)
		central.Sync()
		reference := newReference(c)
		for _, tuple := range tuples {
			want := reference.Allowed(tuple)
			for _, state := range []connState{{"new", 0}, {"est", 0}, {"est", 1}} {
				if got, output := trace(t, central, c, tuple, state); got != want {
					t.Fatalf("seed %d: %s, %v: ovn-trace: allowed %v, the reference: %v\n%s\n%s", seed, c.Text(tuple), state, got,
						want, c.yaml(tuple), output)
				}
			}
			if decided++; !want {
				denied++
			}
		}
		slices.Reverse(units)
		for i := range units {
			units[i] = unit.Unit{Key: units[i].Key}
		}
		apply(t, engine, units)
	}
	t.Logf("%d connections, %d of them denied, from seed %d: ovn-trace agrees", decided, denied, *flagSeed)
}

func startEngine(t *testing.T, central *ovndbtest.Central) *ovndb.Engine {
	t.Helper()
	e := ovndb.NewEngine(ovndb.Config{Schema: northbound.Schema(), Endpoints: []string{central.NB.Endpoint()}, Log: testr.New(t)}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	connected, give := context.WithTimeout(ctx, time.Minute)
	defer give()
	if err := e.Wait(connected, func() (bool, error) { return e.Connected(), nil }); err != nil {
		t.Fatal(err)
	}
	return e
}

func apply(t *testing.T, e *ovndb.Engine, units []unit.Unit) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, u := range units {
		if err := e.Apply(ctx, u); err != nil {
			t.Fatalf("%s: %v", u.Key, err)
		}
	}
}

// connState is a connection's state in connection tracking. Blocked connections were open when an ACL denied them.
type connState struct {
	ct      string
	blocked int
}

// trace traces a packet of a connection from where it enters OVN, and checks whether it reaches its destination, or
// the cluster router if the destination is outside.
func trace(t *testing.T, central *ovndbtest.Central, c *Cluster, tuple Tuple, state connState) (allowed bool, output string) {
	t.Helper()
	datapath, inport, source := names.ClusterRouter, names.RouterToJoin(names.ClusterRouter),
		fmt.Stringer(ipam.MAC([]netip.Addr{tuple.From.Address}))
	target := fmt.Stringer(ipam.MAC(firstOfJoin(c)))
	if on := c.switchOf(tuple.From); on >= 0 {
		datapath, inport, source = c.Nodes[on].Name, c.portOf(tuple.From), c.macOf(tuple.From)
		target = ipam.MAC(gateways(c, on))
		if c.switchOf(tuple.To) == on {
			target = c.macOf(tuple.To)
		}
	}
	family := "ip4"
	if tuple.To.Address.Is6() {
		family = "ip6"
	}
	protocol := strings.ToLower(string(tuple.Protocol))
	microflow := fmt.Sprintf(
		"inport == %q && eth.src == %v && eth.dst == %v && %s.src == %v && %s.dst == %v && ip.ttl == 64 && %s.src == "+
			"33333 && %s.dst == %d && ct_mark.blocked == %d",
		inport, source, target, family, tuple.From.Address, family, tuple.To.Address, protocol, protocol, tuple.Port, state.blocked)
	args := []string{"--db=" + central.SB.Endpoint(), "--summary"}
	for range 8 { // a packet passes connection tracking several times
		args = append(args, "--ct="+state.ct)
	}
	output = ovndbtest.Command(t, "ovn-trace", append(args, datapath, microflow)...)
	if c.switchOf(tuple.To) < 0 {
		return strings.Contains(output, fmt.Sprintf("ingress(dp=%q", names.ClusterRouter)), output
	}
	return strings.Contains(output, fmt.Sprintf("output to %q", c.portOf(tuple.To))), output
}

// switchOf returns the node whose switch an end is on, or -1.
func (c *Cluster) switchOf(e End) int {
	if e.Pod < 0 {
		return e.Node
	}
	return slices.IndexFunc(c.Nodes, func(n Node) bool { return n.Name == c.Pods[e.Pod].Spec.NodeName })
}

func (c *Cluster) portOf(e End) string { return (&database{cluster: c}).port(e) }

func (c *Cluster) macOf(e End) fmt.Stringer {
	if e.Pod >= 0 {
		return ipam.MAC(addressesOf(&c.Pods[e.Pod]))
	}
	return ipam.MAC(c.Nodes[e.Node].Management)
}

func gateways(c *Cluster, node int) (addresses []netip.Addr) {
	for _, subnet := range subnetsOf(c, node) {
		addresses = append(addresses, ipam.Gateway(subnet))
	}
	return addresses
}

func firstOfJoin(c *Cluster) (addresses []netip.Addr) {
	for _, join := range networkOf(c).Join {
		addresses = append(addresses, ipam.Gateway(join))
	}
	return addresses
}
