package topology_test

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// maxZones is the largest number of zones in the spec.
const maxZones = 15

// zoneGoldens returns the goldens of each testdata file with zones.
func zoneGoldens(t *testing.T) map[string][]golden {
	t.Helper()
	files := map[string][]golden{}
	for _, g := range goldens(t) {
		files[g.path] = append(files[g.path], g)
	}
	maps.DeleteFunc(files, func(_ string, all []golden) bool { return len(all) < 2 })
	if len(files) != 3 {
		t.Fatalf("%d files have zones, want one with IPv4, one with IPv6 and one with both", len(files))
	}
	return files
}

// rowsOf returns the rows of a kind in all units, by name.
func rowsOf[M any](units []unit.Unit, name func(*M) string) map[string]*M {
	found := map[string]*M{}
	for _, u := range units {
		for _, row := range u.Rows {
			if m, ok := row.Model.(*M); ok {
				found[name(m)] = m
			}
		}
	}
	return found
}

func portsOf(units []unit.Unit) map[string]*nbdb.LogicalSwitchPort {
	return rowsOf(units, func(p *nbdb.LogicalSwitchPort) string { return p.Name })
}

// A packet of one zone carries the tunnel keys of its sender's database, so the zones agree on the keys of the transit switch and of its
// ports. The port of a node elsewhere has the MAC and the addresses at which the node's own zone receives packets.
func TestZonesAgreeOnTheTransitSwitch(t *testing.T) {
	for path, zones := range zoneGoldens(t) {
		remote := 0
		for _, here := range zones {
			for _, there := range zones {
				if here.zone == there.zone {
					continue
				}
				if a, b := requestedKeys(here.units)["transit"], requestedKeys(there.units)["transit"]; a == "" || a != b {
					t.Errorf("%s: the transit switch has key %q in zone %q and %q in zone %q", path, a, here.zone, b, there.zone)
				}
				own := portsOf(there.units)
				routers := rowsOf(there.units, func(p *nbdb.LogicalRouterPort) string { return p.Name })
				for name, port := range portsOf(here.units) {
					end := own[name]
					if port.Type != "remote" || end == nil || end.Type != "router" {
						continue
					}
					remote++
					if port.UUID == end.UUID {
						t.Errorf("%s: port %s has the same row in both zones, so a node that changes its zone would update it", path, name)
					}
					if a, b := port.Options["requested-tnl-key"], end.Options["requested-tnl-key"]; a == "" || a != b {
						t.Errorf("%s: port %s has key %q elsewhere and %q in its own zone", path, name, a, b)
					}
					at := routers[end.Options["router-port"]]
					address, err := ovnexpr.ParsePortAddress(port.Addresses[0])
					if err != nil {
						t.Fatal(err)
					}
					var networks []string
					for _, a := range address.Addresses {
						networks = append(networks, netip.PrefixFrom(a, a.BitLen()).String())
					}
					if address.MAC.String() != at.MAC || !slices.Equal(networks, at.Networks) {
						t.Errorf("%s: port %s has %v elsewhere, and the router has %s %v", path, name, port.Addresses, at.MAC, at.Networks)
					}
				}
			}
		}
		if remote < 2 {
			t.Errorf("%s: %d ports are remote", path, remote)
		}
	}
}

// A zone's datapaths have keys of their own, except the datapaths that exist in every zone. So a packet with the key of a node's switch
// never enters another zone's switch.
func TestZonesHaveDatapathsOfTheirOwn(t *testing.T) {
	for path, zones := range zoneGoldens(t) {
		owners := map[string]string{} // key -> name
		for _, g := range zones {
			inZone := map[string]string{}
			for name, key := range requestedKeys(g.units) {
				if other := inZone[key]; other != "" {
					t.Errorf("%s: %s and %s of zone %q have key %s", path, name, other, g.zone, key)
				}
				inZone[key] = name
				if other, taken := owners[key]; taken && other != name {
					t.Errorf("%s: %s and %s of another zone have key %s", path, name, other, key)
				}
				owners[key] = name
			}
			seen := map[string]unit.Key{}
			for _, u := range g.units {
				for _, row := range u.Rows {
					id := fmt.Sprintf("%T %s", row.Model, reflect.ValueOf(row.Model).Elem().FieldByName("UUID"))
					if other, taken := seen[id]; taken {
						t.Errorf("%s: units %s and %s of zone %q have the row %s", path, u.Key, other, g.zone, id)
					}
					seen[id] = u.Key
				}
			}
		}
	}
}

// The keys of ports on the transit switch and its router are distinct for all nodes and all zones.
func TestTransitKeysAreDistinct(t *testing.T) {
	const firstNode, lastNode, lastPortKey = 1, 16000, 32767
	zone := facts.Transit{Clusters: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		Near: []netip.Prefix{netip.MustParsePrefix("100.89.0.1/30")}, Far: []netip.Prefix{netip.MustParsePrefix("100.89.0.2/30")}}
	owners := map[string]string{}
	claim := func(key, owner string) {
		t.Helper()
		if other, taken := owners[key]; taken && other != owner {
			t.Errorf("%s and %s have key %s", other, owner, key)
		}
		var number int
		if _, err := fmt.Sscan(key, &number); err != nil || number < 1 || number > lastPortKey {
			t.Errorf("%s has key %q", owner, key)
		}
		owners[key] = owner
	}
	for sender := range maxZones + 1 {
		zone.Sender = sender
		zone.Senders = []netip.Prefix{netip.PrefixFrom(ipam.Host(netip.MustParsePrefix("100.88.0.0/16"), 1+sender), 16)}
		for name, port := range rowsOf([]unit.Unit{topology.TransitUnit(zone)}, func(p *nbdb.LogicalRouterPort) string { return p.Name }) {
			if name == "rtots-sender" {
				claim(port.Options["requested-tnl-key"], fmt.Sprint("the sender of zone ", sender))
			} else {
				claim(port.Options["requested-tnl-key"], "the link of the routers")
			}
		}
	}
	for _, id := range []int{firstNode, firstNode + 1, lastNode - 1, lastNode} {
		n := facts.TransitNode{Node: facts.Node{Name: "n", ID: id}, Addresses: []netip.Addr{netip.MustParseAddr("100.88.0.17")}}
		for _, elsewhere := range []bool{false, true} {
			n.Elsewhere = elsewhere
			for _, port := range portsOf([]unit.Unit{topology.TransitNodeUnit(n)}) {
				claim(port.Options["requested-tnl-key"], fmt.Sprint("node ", id))
			}
		}
	}
	if want := 1 + maxZones + 1 + 4; len(owners) != want {
		t.Errorf("%d keys, want %d", len(owners), want)
	}
}

// A pod elsewhere has no rows here. Its addresses are in the sets of the selectors that select it, whenever the selectors appear. It is in
// no port group, because it has no port.
func TestPodElsewhere(t *testing.T) {
	selector := facts.NamespacePods("demo")
	group, set := topology.PodGroupKey(selector), topology.PodSetKey(selector)
	p := topology.Pod{Namespace: "demo", Name: "web-0", UID: "uid", Node: "n2", Chassis: "c2", Slot: 16, EgressIP: "out",
		Addresses: []netip.Addr{netip.MustParseAddr("10.244.1.3"), netip.MustParseAddr("fd00:10:244:1::3")}}
	p.MAC = ipam.MAC(p.Addresses)
	elements := func(members []unit.Membership) (texts []string) {
		for _, m := range members {
			if m.Parent.Table != nbdb.AddressSetTable || m.Column != "addresses" || !m.Optional {
				t.Errorf("the pod is in %+v", m)
			}
			texts = append(texts, m.Element)
		}
		slices.Sort(texts)
		return texts
	}
	both := []string{"10.244.1.3", "fd00:10:244:1::3"}

	later := topology.PodElsewhereUnit(p)
	if len(later.Rows) > 0 || later.Key != topology.PodKey("demo", "web-0") {
		t.Errorf("unit %s has %d rows", later.Key, len(later.Rows))
	}
	inEgress := len(elements(later.Members))
	p.Selected = []unit.Key{group, set}
	selected := topology.PodElsewhereUnit(p)
	if have := len(elements(selected.Members)) - inEgress; have != len(both) {
		t.Errorf("a selector adds %d elements: %+v", have, selected.Members)
	}

	joined := topology.SelectedMembers(selector, set)(later)
	if have := elements(joined); !slices.Equal(have, both) {
		t.Errorf("a selector that appears later selects %v, want %v", have, both)
	}
	for _, m := range joined {
		if !slices.Contains(selected.Members, m) {
			t.Errorf("a selector that was there before does not select %+v", m)
		}
		if !slices.Contains(topology.SelectedRows(set), m.Parent) {
			t.Errorf("%+v is in no set of the selector", m)
		}
	}
	if have := topology.SelectedMembers(selector, group)(later); len(have) > 0 {
		t.Errorf("the selector's port group has %+v", have)
	}
	if have := topology.SelectedMembers(selector, set)(unit.Unit{Key: later.Key}); len(have) > 0 {
		t.Errorf("a pod without addresses is in %+v", have)
	}
	ofNetwork := selector
	ofNetwork.Network = "green"
	if key := topology.SelectedUnit(ofNetwork, "demo", "web-0"); key == later.Key {
		t.Errorf("a selector of ports on a Network selects by unit %s, which has the pod's addresses on the cluster network", key)
	}
}

// An EgressIP has rows on the transit router only if a node elsewhere carries an address, because the router is absent without zones. It
// translates no packets for that node.
func TestEgressIPElsewhere(t *testing.T) {
	for _, byHost := range []bool{false, true} {
		for _, elsewhere := range []bool{false, true} {
			carried := facts.CarriedAddress{Address: netip.MustParseAddr("192.0.2.100"), Node: "n1", ByHost: byHost,
				Join: []netip.Prefix{netip.MustParsePrefix("100.64.0.2/16")}, Clusters: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
			carried.Elsewhere = elsewhere
			if elsewhere {
				carried.Transit = []netip.Addr{netip.MustParseAddr("100.88.0.17")}
				carried.Far = []netip.Addr{netip.MustParseAddr("100.89.0.2")}
			}
			u := topology.EgressIPUnit(facts.EgressIP{Name: "out", Addresses: []netip.Addr{carried.Address},
				Carried: []facts.CarriedAddress{carried}})
			transit, taken := 0, 0
			for _, m := range u.Members {
				if m.Parent.UUID == unit.UUID(nbdb.LogicalRouterTable, "transit_router") {
					transit++
				}
				if m.Column == "nat" || m.Element == "192.0.2.100" {
					taken++
				}
			}
			if (transit == 1) != elsewhere || (taken > 0) == elsewhere {
				t.Errorf("elsewhere %t, by the host %t: %d policies on the transit router, and the node takes %d elements",
					elsewhere, byHost, transit, taken)
			}
		}
	}
}

// The units of a node and of its gateway elsewhere keep only addresses in sets.
func TestElsewhereKeepsAddresses(t *testing.T) {
	for path, zones := range zoneGoldens(t) {
		for _, g := range zones {
			for _, u := range g.units {
				kind, node := u.Key.Kind(), u.Key.Name()
				away := slices.ContainsFunc(zones, func(o golden) bool { return o.zone != g.zone && requestedKeys(o.units)[node] != "" })
				if !away || kind != topology.KindNode && kind != topology.KindGateway {
					continue
				}
				if len(u.Rows) > 0 {
					t.Errorf("%s: %s of another zone has %d rows in zone %q", path, u.Key, len(u.Rows), g.zone)
				}
				for _, m := range u.Members {
					if m.Parent.Table != nbdb.AddressSetTable {
						t.Errorf("%s: %s of another zone has %+v in zone %q", path, u.Key, m, g.zone)
					}
				}
			}
		}
	}
}
