package transit_test

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/controllers/transit"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

var all, n1 = topology.TransitKey(), topology.TransitNodeKey("n1")

// zoned is a ClusterNetwork with IPv4 and these zones.
func zoned(zones ...networkv1alpha1.ZoneName) *networkv1alpha1.ClusterNetwork {
	cn := kindtest.ClusterNetwork("4")
	for _, zone := range zones {
		cn.Spec.Zones = append(cn.Spec.Zones, networkv1alpha1.Zone{Name: zone, NodeSelector: map[string]string{"zone": string(zone)}})
	}
	return cn
}

// node is the node n1 in a zone, as the cluster's operator and its agent write it.
func node(t *testing.T, zone networkv1alpha1.ZoneName) (*corev1.Node, *networkv1alpha1.NodeNetwork) {
	t.Helper()
	n, nn := kindtest.Node(t, 1, "4")
	nn.Spec.Zone, nn.Spec.TransitAddresses = zone, []networkv1alpha1.IP{"100.88.0.17"}
	nn.Status.EncapIP = "192.0.2.1"
	return n, nn
}

func newBed(t *testing.T, zone kind.Zone, objects ...client.Object) *kindtest.Bed {
	t.Helper()
	return kindtest.New(t, transit.Kinds, topology.KindTransit, func(env *kind.Env) { env.Zone = zone }, objects...)
}

// expectUnit compares the lines of a unit that contain one of the words. A unit that was not applied has the line "not applied".
func expectUnit(t *testing.T, have kindtest.Outcome, key unit.Key, words []string, want ...string) {
	t.Helper()
	lines, applied := have.Units[key]
	picked := kindtest.Pick(lines, words...)
	if !applied {
		picked = []string{"not applied"}
	}
	if !slices.Equal(picked, want) {
		t.Errorf("unit %s has %q, want %q", key, picked, want)
	}
	have.Units = nil
	kindtest.Expect(t, kindtest.Outcome{}, have)
}

func TestTheSwitchBetweenZones(t *testing.T) {
	rows := []string{"LogicalSwitch ", "LogicalRouter ", "LogicalRouterPort rtots-"}
	complete := func(sender string) []string {
		return []string{
			"LogicalRouter transit_router options=map[always_learn_from_arp_request:false dynamic_neigh_routers:true requested-tnl-key:4]",
			"LogicalRouterPort rtots-sender " + sender,
			"LogicalSwitch transit other_config=map[interconn-ts:transit requested-tnl-key:3]",
		}
	}
	first := complete("mac=0a:58:64:58:00:01 networks=[100.88.0.1/16] options=map[requested-tnl-key:16400]")
	third := complete("mac=0a:58:64:58:00:03 networks=[100.88.0.3/16] options=map[requested-tnl-key:16402]")
	overlapping := zoned("east")
	overlapping.Spec.ServiceNetwork = []networkv1alpha1.CIDR{"100.88.0.0/24"}
	edited := zoned("east")
	edited.Spec.ServiceNetwork = []networkv1alpha1.CIDR{"10.97.0.0/16"}
	for name, c := range map[string]struct {
		zone    kind.Zone
		network *networkv1alpha1.ClusterNetwork
		want    []string
	}{
		"the default zone":               {"", zoned("east", "west"), first},
		"the second zone":                {"west", zoned("east", "west"), third},
		"without zones":                  {"", zoned(), nil},
		"a zone that has left":           {"east", zoned(), nil},
		"without a ClusterNetwork":       {"", nil, []string{"not applied"}},
		"a network overlaps":             {"", overlapping, []string{"not applied"}},
		"a network awaits its judgement": {"", edited, []string{"not applied"}},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if c.network != nil {
				objects = append(objects, c.network)
			}
			b := newBed(t, c.zone, objects...)
			expectUnit(t, b.Reconcile("", networkv1alpha1.ClusterNetworkName), all, rows, c.want...)
			b.ExpectSettled("", networkv1alpha1.ClusterNetworkName)
		})
	}
}

// The rows go with the last zone.
func TestZonesEnd(t *testing.T) {
	cn := zoned("east")
	n, nn := node(t, "")
	b := newBed(t, "", cn, n, nn)
	b.Reconcile("", networkv1alpha1.ClusterNetworkName)
	b.ReconcileKind(topology.KindTransitNode, "", "n1")
	cn.Spec.Zones = nil
	b.Update(cn)
	expectUnit(t, b.Reconcile("", networkv1alpha1.ClusterNetworkName), all, []string{""})
	expectUnit(t, b.ReconcileKind(topology.KindTransitNode, "", "n1"), n1, []string{""})
}

func TestANodeBetweenZones(t *testing.T) {
	rows := []string{"LogicalRouterPort ", "LogicalSwitchPort ", "LogicalRouterStaticRoute "}
	here := []string{
		"LogicalRouterPort rtots-n1 mac=0a:58:64:58:00:11 networks=[100.88.0.17/32] options=map[requested-tnl-key:17]",
		"LogicalSwitchPort tstor-n1 addresses=[router] options=map[requested-tnl-key:17 router-port:rtots-n1] type=router",
	}
	away := []string{
		"LogicalRouterStaticRoute 10.244.1.0/24 ip_prefix=10.244.1.0/24 nexthop=100.88.0.17 output_port=rtots-sender",
		"LogicalRouterStaticRoute 10.244.1.0/24 ip_prefix=10.244.1.0/24 nexthop=100.89.0.2 output_port=rtotr",
		"LogicalRouterStaticRoute 100.64.0.2/32 ip_prefix=100.64.0.2/32 nexthop=100.88.0.17 output_port=rtots-sender",
		"LogicalRouterStaticRoute 100.64.0.2/32 ip_prefix=100.64.0.2/32 nexthop=100.89.0.2 output_port=rtotr",
		"LogicalSwitchPort tstor-n1 addresses=[0a:58:64:58:00:11 100.88.0.17] external_ids=map[weft.dev/encap:geneve 192.0.2.1 " +
			"weft.dev/hostname:n1] options=map[requested-chassis:chassis-n1 requested-tnl-key:17] type=remote",
	}
	type nodeNetwork = networkv1alpha1.NodeNetwork
	zones := []networkv1alpha1.ZoneName{"east"}
	for name, c := range map[string]struct {
		zone   kind.Zone // of the operator
		in     networkv1alpha1.ZoneName
		zones  []networkv1alpha1.ZoneName
		change func(*nodeNetwork)
		want   []string
	}{
		"here":                       {"", "", zones, nil, here},
		"in the operator's own zone": {"east", "east", zones, nil, here},
		"elsewhere":                  {"", "east", zones, nil, away},
		"in the default zone":        {"east", "", zones, nil, away},
		"without zones":              {"", "", nil, nil, nil},
		"without a chassis":          {"", "east", zones, func(nn *nodeNetwork) { nn.Status.Chassis = "" }, nil},
		"without a tunnel":           {"", "east", zones, func(nn *nodeNetwork) { nn.Status.EncapIP = "" }, nil},
		"without an address":         {"", "", zones, func(nn *nodeNetwork) { nn.Spec.TransitAddresses = nil }, nil},
		"unreadable":                 {"", "", zones, func(nn *nodeNetwork) { nn.Status.EncapIP = "x" }, []string{"not applied"}},
	} {
		t.Run(name, func(t *testing.T) {
			n, nn := node(t, c.in)
			if c.change != nil {
				c.change(nn)
			}
			b := newBed(t, c.zone, zoned(c.zones...), n, nn)
			expectUnit(t, b.ReconcileKind(topology.KindTransitNode, "", "n1"), n1, rows, c.want...)
		})
	}
}

// A node without a Node, or without a NodeNetwork, has no rows. A node that changes its zone changes its rows.
func TestANodeMovesAndEnds(t *testing.T) {
	n, nn := node(t, "")
	b := newBed(t, "", zoned("east"), n, nn)
	kindOf := func(want ...string) {
		t.Helper()
		expectUnit(t, b.ReconcileKind(topology.KindTransitNode, "", "n1"), n1, []string{"type="}, want...)
	}
	router := "LogicalSwitchPort tstor-n1 addresses=[router] options=map[requested-tnl-key:17 router-port:rtots-n1] type=router"
	remote := "LogicalSwitchPort tstor-n1 addresses=[0a:58:64:58:00:11 100.88.0.17] external_ids=map[weft.dev/encap:geneve 192.0.2.1 " +
		"weft.dev/hostname:n1] options=map[requested-chassis:chassis-n1 requested-tnl-key:17] type=remote"
	kindOf(router)
	nn.Spec.Zone = "east"
	b.Update(nn)
	kindOf(remote)
	b.Delete(n)
	kindOf()
	n.ResourceVersion = ""
	b.Create(n)
	kindOf(remote)
	b.Delete(nn)
	kindOf()
}

// A node elsewhere that reports another node's chassis or tunnel end gets no port, which would take the other node's packets, until one of
// them ceases to report it.
func TestClaimsOfAnotherNode(t *testing.T) {
	for name, claim := range map[string]func(rival *networkv1alpha1.NodeNetwork, of *networkv1alpha1.NodeNetwork){
		"chassis":    func(r, of *networkv1alpha1.NodeNetwork) { r.Status.Chassis = of.Status.Chassis },
		"tunnel end": func(r, of *networkv1alpha1.NodeNetwork) { r.Status.EncapIP = of.Status.EncapIP },
		"further tunnel end": func(r, of *networkv1alpha1.NodeNetwork) {
			r.Status.FurtherEncapIPs = []networkv1alpha1.IP{of.Status.EncapIP}
		},
	} {
		n, nn := node(t, "east")
		other, rival := kindtest.Node(t, 2, "4")
		rival.Status.EncapIP = "192.0.2.2"
		claim(rival, nn)
		b := newBed(t, "", zoned("east"), n, nn, other, rival)
		have := b.ReconcileKind(topology.KindTransitNode, "", "n1")
		if rows := have.Units[n1]; len(rows) > 0 {
			t.Errorf("%s: the node has rows %q", name, rows)
		}
		rival.Status.Chassis, rival.Status.EncapIP, rival.Status.FurtherEncapIPs = "chassis-of-n2", "192.0.2.2", nil
		b.Update(rival)
		have = b.ReconcileKind(topology.KindTransitNode, "", "n1")
		if rows := have.Units[n1]; len(rows) == 0 {
			t.Errorf("%s: the node has no rows when no other node claims it", name)
		}
	}
}

// Only an error of the database itself is returned.
func TestErrorsOfTheDatabase(t *testing.T) {
	n, nn := node(t, "")
	b := newBed(t, "", zoned("east"), n, nn)
	reconcile := func() []string {
		return []string{b.Reconcile("", networkv1alpha1.ClusterNetworkName).Err, b.ReconcileKind(topology.KindTransitNode, "", "n1").Err}
	}
	b.Database.Away = true // the engine retries by itself
	if have := reconcile(); !slices.Equal(have, []string{"", ""}) {
		t.Errorf("while the database is away: %q", have)
	}
	b.Database.Away = false
	for _, key := range []unit.Key{all, n1} {
		b.Database.Refusals[key] = &ovndb.RejectedError{Unit: key, Err: errors.New("constraint violation")}
	}
	if have := reconcile(); slices.Contains(have, "") {
		t.Errorf("while the database refuses: %q", have)
	}
}

// A node's rows follow what they depend on, and not its other status.
func TestWhatEnqueues(t *testing.T) {
	n, nn := node(t, "")
	b := newBed(t, "", zoned("east"), n, nn)
	var kinds = map[string]*kind.Kind{}
	for _, k := range b.Kinds {
		kinds[k.Name] = k
	}
	passes := func(what string, watch kind.Watch, before, after client.Object, want bool) {
		t.Helper()
		for _, p := range watch.Predicates {
			if have := p.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); have != want {
				t.Errorf("%s enqueues: %t", what, have)
			}
		}
		if len(watch.Predicates) != 1 {
			t.Errorf("%s: %d predicates", what, len(watch.Predicates))
		}
	}
	nodes := kinds[topology.KindTransitNode].Watches
	for what, c := range map[string]struct {
		change func(*networkv1alpha1.NodeNetwork)
		want   bool
	}{
		"nothing":           {func(*networkv1alpha1.NodeNetwork) {}, false},
		"the spec":          {func(nn *networkv1alpha1.NodeNetwork) { nn.Generation++ }, true},
		"the chassis":       {func(nn *networkv1alpha1.NodeNetwork) { nn.Status.Chassis = "other" }, true},
		"the tunnel":        {func(nn *networkv1alpha1.NodeNetwork) { nn.Status.EncapIP = "192.0.2.9" }, true},
		"another tunnel":    {func(nn *networkv1alpha1.NodeNetwork) { nn.Status.FurtherEncapIPs = []networkv1alpha1.IP{"192.0.2.9"} }, true},
		"the gateway":       {func(nn *networkv1alpha1.NodeNetwork) { nn.Status.Gateway = nil }, false},
		"the MTU of a link": {func(nn *networkv1alpha1.NodeNetwork) { nn.Status.LinkMTU = 9000 }, false},
	} {
		after := nn.DeepCopy()
		c.change(after)
		passes(what, nodes[0], nn, after, c.want)
	}
	passes("a change of a Node", nodes[1], n, n.DeepCopy(), false)
	for what, c := range map[string]struct {
		change func(*networkv1alpha1.ClusterNetwork)
		want   bool
	}{
		"nothing":     {func(*networkv1alpha1.ClusterNetwork) {}, false},
		"the spec":    {func(cn *networkv1alpha1.ClusterNetwork) { cn.Generation++ }, true},
		"a judgement": {func(cn *networkv1alpha1.ClusterNetwork) { cn.Status.Networks[0].State = networkv1alpha1.NetworkHeld }, true},
		"a zone's state": {func(cn *networkv1alpha1.ClusterNetwork) {
			cn.Status.Zones = []networkv1alpha1.ZoneStatus{{Name: "east"}}
		}, false},
	} {
		after := zoned("east")
		c.change(after)
		passes(what, nodes[2], zoned("east"), after, c.want)
		passes(what, kinds[topology.KindTransit].Watches[0], zoned("east"), after, c.want)
	}
}
