package topology_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/facts"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

func networkObject(spec networkv1alpha1.NetworkSpec) *networkv1alpha1.Network {
	n := &networkv1alpha1.Network{Spec: spec}
	n.Name = "green"
	return n
}

func layer3() networkv1alpha1.NetworkSpec {
	return networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer3, Subnets: []networkv1alpha1.NetworkSubnet{
		{CIDR: "10.1.0.0/16", HostPrefix: 24}, {CIDR: "fd00:1::/48"}}}
}

// A node's part of a Layer3 network follows from its ID, and ends with the subnet.
func TestPartsOfNodes(t *testing.T) {
	n, err := facts.ParseNetwork(networkObject(layer3()))
	if err != nil {
		t.Fatal(err)
	}
	pools, err := n.Pools("n3", 3)
	if err != nil || pools[0].Subnet.String() != "10.1.2.0/24" || pools[1].Subnet.String() != "fd00:1:0:2::/64" {
		t.Errorf("%v, %v", pools, err)
	}
	if _, err := n.Pools("n257", 257); err == nil || !strings.Contains(err.Error(), "network green has no subnet for node n257") {
		t.Errorf("node 257: %v", err)
	}
}

func TestNetworksThatContradictThemselves(t *testing.T) {
	for want, change := range map[string]func(*networkv1alpha1.NetworkSpec){
		"spec.subnets[0].hostPrefix: 12 is not in 16..30": func(s *networkv1alpha1.NetworkSpec) { s.Subnets[0].HostPrefix = 12 },
		"spec.subnets[0].cidr":                            func(s *networkv1alpha1.NetworkSpec) { s.Subnets[0].CIDR = "10.1.0.1/16" },
		"spec.excludeSubnets[0]: 10.2.0.0/24": func(s *networkv1alpha1.NetworkSpec) {
			s.ExcludeSubnets = []networkv1alpha1.CIDR{"10.2.0.0/24"}
		},
		"spec.mtu: 600": func(s *networkv1alpha1.NetworkSpec) { s.MTU = 600 },
	} {
		spec := layer3()
		change(&spec)
		if _, err := facts.ParseNetwork(networkObject(spec)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What a port says of an attachment is read back as it was, by the operator and by the node.
func TestPortsOnNetworksAreReadBack(t *testing.T) {
	n, err := facts.ParseNetwork(networkObject(layer3()))
	if err != nil {
		t.Fatal(err)
	}
	mac, _ := net.ParseMAC("0a:58:0a:01:02:03")
	u := topology.PodPortsUnit("demo", "web-0", []topology.PodPort{{Namespace: "demo", Name: "web-0", UID: "uid",
		Node: "n3", Chassis: "c3", Network: n,
		Interface: "net_1", Request: "abc", Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.2.3/24")}, MAC: mac, Slot: 17}})
	port := u.Rows[0].Model.(*nbdb.LogicalSwitchPort)
	if parent := u.Members[0].Parent.UUID; parent != unit.UUID(nbdb.LogicalSwitchTable, "net_green_n3") {
		t.Errorf("the port is on %s", parent)
	}
	port.ExternalIDs[unit.OwnerKey] = string(u.Key)
	row, ok, err := topology.ParsePodPortsRow(port)
	if err != nil || !ok || row.Network != "green" || row.Name != "web-0" || row.Interface != "net_1" ||
		row.UID != "uid" || row.Slot != 17 ||
		row.Addresses[0].String() != "10.1.2.3" || row.MAC.String() != mac.String() {
		t.Errorf("%+v, %v, %v", row, ok, err)
	}
	a, ok, err := ovnexpr.ParseAttachment(port.ExternalIDs)
	if err != nil || !ok || a.Network != "green" || a.Request != "abc" || a.Prefixes[0].String() != "10.1.2.3/24" ||
		a.Routes[0].String() != "10.1.0.0/16 10.1.2.1" {
		t.Errorf("%+v, %v, %v", a, ok, err)
	}
	for key, bad := range map[string]string{"weft.dev/prefixes": "10.1.2.3", "weft.dev/routes": "10.1.0.0/16",
		"weft.dev/mtu": "many", "weft.dev/gateways": "x"} {
		ids := map[string]string{ovnexpr.NetworkKey: "green", key: bad}
		if _, _, err := ovnexpr.ParseAttachment(ids); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s %q: %v", key, bad, err)
		}
	}
}
