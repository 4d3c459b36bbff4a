package facts_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// maxZones is the largest number of zones in the spec.
const maxZones = 15

// zoned returns a ClusterNetwork with pods of some of the families "4" and "6". Each zone selects the nodes whose label zone has its name.
func zoned(families string, zones ...networkv1alpha1.ZoneName) *networkv1alpha1.ClusterNetwork {
	cn := &networkv1alpha1.ClusterNetwork{}
	if strings.Contains(families, "4") {
		cn.Spec.ClusterNetwork = append(cn.Spec.ClusterNetwork, networkv1alpha1.ClusterNetworkEntry{CIDR: "10.244.0.0/16", HostPrefix: 24})
	}
	if strings.Contains(families, "6") {
		cn.Spec.ClusterNetwork = append(cn.Spec.ClusterNetwork, networkv1alpha1.ClusterNetworkEntry{CIDR: "fd01::/48", HostPrefix: 64})
	}
	cn.Spec.ServiceNetwork = []networkv1alpha1.CIDR{"10.96.0.0/16", "fd02::/112"}
	cn.Spec.JoinSubnet = []networkv1alpha1.CIDR{"100.64.0.0/16", "fd98::/64"}
	for _, zone := range zones {
		cn.Spec.Zones = append(cn.Spec.Zones, networkv1alpha1.Zone{Name: zone, NodeSelector: map[string]string{"zone": string(zone)}})
	}
	return cn
}

func planFor(t *testing.T, cn *networkv1alpha1.ClusterNetwork) facts.Plan {
	t.Helper()
	plan, err := facts.ParseClusterNetwork(cn)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestNodeZone(t *testing.T) {
	type (
		status = networkv1alpha1.ZoneStatus
		ips    = []networkv1alpha1.IP
	)
	ready := func(zone networkv1alpha1.ZoneName, addresses ...networkv1alpha1.IP) status {
		return status{Name: zone, Ready: true, Addresses: addresses}
	}
	lost := func(zone networkv1alpha1.ZoneName, addresses ...networkv1alpha1.IP) status {
		return status{Name: zone, Addresses: addresses}
	}
	east, west, starting := ready("east", "192.0.2.8"), ready("west", "192.0.2.9"), lost("west", "192.0.2.9")
	for name, c := range map[string]struct {
		zones  string // of the spec
		status []status
		labels string
		has    string // the node's zone; its databases are 192.0.2.7
		want   string
		at     ips
	}{
		"no zones":                            {"", nil, "zone=east", "", "", nil},
		"no zone selects the node":            {"east", []status{east}, "zone=west", "", "", nil},
		"the node has only one of the labels": {"east,rack=1", []status{east}, "rack=1", "", "", nil},
		"it enters a zone that is ready":      {"east", []status{east}, "zone=east", "", "east", ips{"192.0.2.8"}},
		"not before the zone is ready":        {"east", []status{lost("east", "192.0.2.8")}, "zone=east", "", "", nil},
		"not before the zone has a state":     {"east west", []status{west}, "zone=east", "", "", nil},
		"not before the zone has an address":  {"east", []status{ready("east")}, "zone=east", "", "", nil},
		"the first zone that selects it":      {"east west,zone=east", []status{west, east}, "zone=east", "", "east", ips{"192.0.2.8"}},
		"it awaits the first, not the second": {"east west,zone=east", []status{west, lost("east")}, "zone=east", "", "", nil},
		"it stays when its zone is not ready": {"east", []status{lost("east", "192.0.2.8")}, "zone=east", "east", "east", ips{"192.0.2.8"}},
		"its zone has lost its addresses":     {"east", []status{lost("east")}, "zone=east", "east", "east", ips{"192.0.2.7"}},
		"its zone has lost its state":         {"east", nil, "zone=east", "east", "east", ips{"192.0.2.7"}},
		"all members of its databases": {"east", []status{ready("east", "192.0.2.8", "192.0.2.9")}, "zone=east", "", "east",
			ips{"192.0.2.8", "192.0.2.9"}},
		"its databases move":                      {"east", []status{east}, "zone=east", "east", "east", ips{"192.0.2.8"}},
		"it stays until the next zone is ready":   {"east west", []status{east, starting}, "zone=west", "east", "east", ips{"192.0.2.7"}},
		"also when its own zone left the spec":    {"west", []status{lost("west")}, "zone=west", "east", "east", ips{"192.0.2.7"}},
		"and until the next zone has an address":  {"east west", []status{east, ready("west")}, "zone=west", "east", "east", ips{"192.0.2.7"}},
		"it changes to the next zone":             {"east west", []status{east, west}, "zone=west", "east", "west", ips{"192.0.2.9"}},
		"a node without the label leaves at once": {"east", []status{east}, "", "east", "", nil},
		"a zone without its place in the spec":    {"", []status{east}, "zone=east", "east", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			cn := &networkv1alpha1.ClusterNetwork{}
			for _, text := range strings.Fields(c.zones) { // "east,rack=1" has one more label in its selector, or another value
				zone, more, _ := strings.Cut(text, ",")
				selector := map[string]string{"zone": zone}
				if label, value, ok := strings.Cut(more, "="); ok {
					selector[label] = value
				}
				cn.Spec.Zones = append(cn.Spec.Zones, networkv1alpha1.Zone{Name: networkv1alpha1.ZoneName(zone), NodeSelector: selector})
			}
			cn.Status.Zones = c.status
			node, err := labels.ConvertSelectorToLabelsMap(c.labels)
			if err != nil {
				t.Fatal(err)
			}
			var has networkv1alpha1.NodeNetworkSpec
			if c.has != "" {
				has.Zone, has.Databases = networkv1alpha1.ZoneName(c.has), ips{"192.0.2.7"}
			}
			zone, at := facts.NodeZone(cn, node, has)
			if string(zone) != c.want || !slices.Equal(at, c.at) {
				t.Errorf("the node is in zone %q with databases %v, want %q with %v", zone, at, c.want, c.at)
			}
		})
	}
}

// Each node has an address of its own on the transit switch in each family of pods. Senders have other addresses.
func TestTransitAddresses(t *testing.T) {
	for _, c := range []struct {
		families string
		id       int32
		zoned    bool
		want     []networkv1alpha1.IP
	}{
		{"4", 1, true, []networkv1alpha1.IP{"100.88.0.17"}},
		{"6", 1, true, []networkv1alpha1.IP{"fd97::11"}},
		{"46", 1, true, []networkv1alpha1.IP{"100.88.0.17", "fd97::11"}},
		{"46", 16000, true, []networkv1alpha1.IP{"100.88.62.144", "fd97::3e90"}},
		{"46", 1, false, nil},
	} {
		plan := planFor(t, zoned(c.families))
		had := networkv1alpha1.NodeNetworkSpec{NodeID: c.id, TransitAddresses: []networkv1alpha1.IP{"100.88.9.9"}}
		spec, err := facts.NodeSpec(had, plan, nil, facts.Settings{Zoned: c.zoned})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(spec.TransitAddresses, c.want) {
			t.Errorf("node %d with families %s has %v, want %v", c.id, c.families, spec.TransitAddresses, c.want)
		}
		plan.Pending = true
		if spec, err = facts.NodeSpec(had, plan, nil, facts.Settings{Zoned: c.zoned}); err != nil ||
			!slices.Equal(spec.TransitAddresses, had.TransitAddresses) {
			t.Errorf("before the networks are judged, the node has %v (%v)", spec.TransitAddresses, err)
		}
	}
}

// The networks between the zones are reserved while there are zones. The error names the field, both networks, and why.
func TestNetworksBetweenZonesAreReserved(t *testing.T) {
	set := map[string]func(*networkv1alpha1.ClusterNetworkSpec, networkv1alpha1.CIDR){
		"clusterNetwork": func(s *networkv1alpha1.ClusterNetworkSpec, n networkv1alpha1.CIDR) {
			s.ClusterNetwork = append(s.ClusterNetwork, networkv1alpha1.ClusterNetworkEntry{CIDR: n, HostPrefix: 127})
			if strings.Contains(string(n), ".") {
				s.ClusterNetwork[len(s.ClusterNetwork)-1].HostPrefix = 31
			}
		},
		"serviceNetwork": func(s *networkv1alpha1.ClusterNetworkSpec, n networkv1alpha1.CIDR) { s.ServiceNetwork[0] = n },
		"joinSubnet":     func(s *networkv1alpha1.ClusterNetworkSpec, n networkv1alpha1.CIDR) { s.JoinSubnet[0] = n },
	}
	for _, c := range []struct {
		network  networkv1alpha1.CIDR
		overlaps string // empty: it is allowed
	}{
		{"100.88.7.0/24", "100.88.0.0/16"}, {"100.80.0.0/12", "100.88.0.0/16"}, {"100.89.0.0/30", "100.89.0.0/30"},
		{"100.89.0.0/24", "100.89.0.0/30"}, {"fd97::/64", "fd97::/64"}, {"fd97::1:0/112", "fd97::/64"}, {"fd97:1::/126", "fd97:1::/126"},
		{"100.87.0.0/16", ""}, {"100.90.0.0/16", ""}, {"100.89.0.4/30", ""}, {"fd97:0:0:1::/64", ""}, {"fd97:2::/64", ""},
	} {
		for field, change := range set {
			with, without := zoned("46", "east"), zoned("46")
			change(&with.Spec, c.network)
			change(&without.Spec, c.network)
			if _, err := facts.ParseClusterNetwork(without); err != nil {
				t.Errorf("%s %s without zones: %v", field, c.network, err)
			}
			_, err := facts.ParseClusterNetwork(with)
			want := "<nil>"
			if c.overlaps != "" {
				want = fmt.Sprintf("spec.zones: %s overlaps %s, which connects the zones", c.network, c.overlaps)
			}
			if fmt.Sprint(err) != want {
				t.Errorf("%s %s: the error is %v, want %s", field, c.network, err, want)
			}
		}
	}
}

func TestPlanTransit(t *testing.T) {
	if have, ok := planFor(t, zoned("46")).Transit(zoned("46"), ""); ok {
		t.Errorf("without zones: %+v", have)
	}
	for _, c := range []struct {
		families, zone string
		want           string
	}{
		{"4", "", "0 [100.88.0.1/16] [100.89.0.1/30] [100.89.0.2/30] [10.244.0.0/16] [100.64.0.0/16]"},
		{"6", "east", "1 [fd97::2/64] [fd97:1::1/126] [fd97:1::2/126] [fd01::/48] [fd98::/64]"},
		{"46", "west", "2 [100.88.0.3/16 fd97::3/64] [100.89.0.1/30 fd97:1::1/126] [100.89.0.2/30 fd97:1::2/126] " +
			"[10.244.0.0/16 fd01::/48] [100.64.0.0/16 fd98::/64]"},
	} {
		cn := zoned(c.families, "east", "west")
		have, ok := planFor(t, cn).Transit(cn, networkv1alpha1.ZoneName(c.zone))
		text := fmt.Sprint(have.Sender, have.Senders, have.Near, have.Far, have.Clusters, have.Join)
		if !ok || text != c.want {
			t.Errorf("zone %q with families %s: %s\nwant %s", c.zone, c.families, text, c.want)
		}
	}
}

// All zones that the API server accepts have senders of their own. Their addresses precede the addresses of nodes.
func TestSendersAreDistinct(t *testing.T) {
	zones := []networkv1alpha1.ZoneName{""}
	for i := range maxZones {
		zones = append(zones, networkv1alpha1.ZoneName(fmt.Sprintf("z%d", i)))
	}
	cn := zoned("46", zones[1:]...)
	plan := planFor(t, cn)
	first, err := facts.NodeSpec(networkv1alpha1.NodeNetworkSpec{NodeID: 1}, plan, nil, facts.Settings{Zoned: true})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[netip.Addr]networkv1alpha1.ZoneName{}
	for _, zone := range zones {
		have, _ := plan.Transit(cn, zone)
		for i, sender := range have.Senders {
			if other, taken := seen[sender.Addr()]; taken {
				t.Errorf("zones %q and %q both send from %s", other, zone, sender)
			}
			seen[sender.Addr()] = zone
			if node := netip.MustParseAddr(string(first.TransitAddresses[i])); !sender.Addr().Less(node) {
				t.Errorf("zone %q sends from %s, and the first node has %s", zone, sender, node)
			}
		}
	}
	if len(seen) != 2*(maxZones+1) {
		t.Errorf("%d senders' addresses", len(seen))
	}
}

func TestParseTransitNode(t *testing.T) {
	cn := zoned("46", "east")
	plan := planFor(t, cn)
	zone, _ := plan.Transit(cn, "east")
	complete := func(change func(*networkv1alpha1.NodeNetwork)) *networkv1alpha1.NodeNetwork {
		nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		var err error
		if nn.Spec, err = facts.NodeSpec(networkv1alpha1.NodeNetworkSpec{NodeID: 1}, plan, nil, facts.Settings{Zoned: true}); err != nil {
			t.Fatal(err)
		}
		nn.Status.Chassis, nn.Status.EncapIP, nn.Status.FurtherEncapIPs = "chassis-n1", "192.0.2.1", []networkv1alpha1.IP{"2001:db8::1"}
		change(nn)
		return nn
	}
	for name, c := range map[string]struct {
		change func(*networkv1alpha1.NodeNetwork)
		want   string // empty: it is not reached yet
	}{
		"complete": {func(*networkv1alpha1.NodeNetwork) {}, "n1 1 chassis-n1 true 1 [100.88.0.17 fd97::11] " +
			"[100.64.0.2 fd98::2] [192.0.2.1 2001:db8::1] [100.89.0.2 fd97:1::2]"},
		"no address":   {func(nn *networkv1alpha1.NodeNetwork) { nn.Spec.TransitAddresses = nil }, ""},
		"no chassis":   {func(nn *networkv1alpha1.NodeNetwork) { nn.Status.Chassis = "" }, ""},
		"no tunnel":    {func(nn *networkv1alpha1.NodeNetwork) { nn.Status.EncapIP = "" }, ""},
		"bad address":  {func(nn *networkv1alpha1.NodeNetwork) { nn.Spec.TransitAddresses[1] = "x" }, "NodeNetwork n1: spec.transitAddresses:"},
		"bad tunnel":   {func(nn *networkv1alpha1.NodeNetwork) { nn.Status.EncapIP = "x" }, "NodeNetwork n1: status.encapIP:"},
		"bad further":  {func(nn *networkv1alpha1.NodeNetwork) { nn.Status.FurtherEncapIPs[0] = "x" }, "NodeNetwork n1: status.further"},
		"bad join":     {func(nn *networkv1alpha1.NodeNetwork) { nn.Spec.JoinAddresses[0] = "x" }, "NodeNetwork n1: spec.joinAddresses:"},
		"bad subnet":   {func(nn *networkv1alpha1.NodeNetwork) { nn.Spec.PodSubnets[0] = "x" }, "NodeNetwork n1: spec.podSubnets"},
		"not the MAC":  {func(nn *networkv1alpha1.NodeNetwork) { nn.Spec.ManagementPort.MACAddress = "x" }, "NodeNetwork n1: "},
		"half written": {func(nn *networkv1alpha1.NodeNetwork) { nn.Spec = networkv1alpha1.NodeNetworkSpec{} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			have, ok, err := facts.ParseTransitNode(complete(c.change), zone, true)
			text := ""
			switch {
			case err != nil && ok:
				t.Fatalf("an error, and ok: %v", err)
			case err != nil:
				text = err.Error()
			case ok:
				text = fmt.Sprint(have.Node.Name, " ", have.Node.ID, " ", have.Node.Chassis, " ", have.Elsewhere, have.Sender, have.Addresses,
					have.Join, have.Tunnels, have.Far)
			}
			if !strings.HasPrefix(text, c.want) || (text == "") != (c.want == "") {
				t.Errorf("have %q, want %q", text, c.want)
			}
		})
	}
}

// The gateway of a node elsewhere is reached by the node's addresses on the transit switch, whatever it was reached by before.
func TestGatewayReachBy(t *testing.T) {
	cn := zoned("46", "east")
	zone, _ := planFor(t, cn).Transit(cn, "")
	nn := &networkv1alpha1.NodeNetwork{}
	nn.Spec.TransitAddresses = []networkv1alpha1.IP{"100.88.0.18", "fd97::12"}
	g := facts.Gateway{Transit: []netip.Addr{netip.MustParseAddr("100.88.0.99")}}
	g.ReachBy(zone, nn)
	if text := fmt.Sprint(g.Transit, g.Far); text != "[100.88.0.18 fd97::12] [100.89.0.2 fd97:1::2]" {
		t.Errorf("the gateway is reached by %s", text)
	}
	if !g.Elsewhere {
		t.Error("the gateway is not elsewhere")
	}
}

func TestClustered(t *testing.T) {
	cn := zoned("4", "east", "west")
	cn.Spec.Zones[1].Databases.Members = 3
	for zone, want := range map[networkv1alpha1.ZoneName]bool{"": false, "east": false, "west": true, "north": false} {
		if have := facts.Clustered(cn, zone); have != want {
			t.Errorf("zone %q: %t", zone, have)
		}
	}
	cn.Spec.Databases.Members = 3
	if !facts.Clustered(cn, "") {
		t.Error("the members of the default zone are not known")
	}
}
