package topology_test

import (
	"net/netip"
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

func localnet(vlan int32) facts.PodNetwork {
	n, err := facts.ParseNetwork(networkObject(networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLocalnet,
		PhysicalNetwork: "dc", VLAN: vlan, Subnets: []networkv1alpha1.NetworkSubnet{{CIDR: "10.1.0.0/16"}, {CIDR: "fd00:1::/64"}}}))
	if err != nil {
		panic(err)
	}
	return n
}

// A Localnet network is one switch with a port to the bridge of each node, and without a router.
func TestTheSegmentsPort(t *testing.T) {
	uuids := map[string]int32{}
	for _, vlan := range []int32{0, 100, 4094} {
		u := topology.PodNetworkUnit(localnet(vlan))
		if len(u.Rows) != 3 || len(u.Members) != 2 {
			t.Fatalf("%d rows, %d memberships", len(u.Rows), len(u.Members))
		}
		ls, port := u.Rows[0].Model.(*nbdb.LogicalSwitch), u.Rows[1].Model.(*nbdb.LogicalSwitchPort)
		if ls.Name != "net_green" || port.Name != "net_green_localnet" || port.Type != "localnet" ||
			port.Options["network_name"] != "dc" || strings.Join(port.Addresses, " ") != "unknown" {
			t.Errorf("switch %s, port %+v", ls.Name, port)
		}
		if tagged := port.TagRequest != nil; tagged != (vlan != 0) || tagged && *port.TagRequest != int(vlan) {
			t.Errorf("VLAN %d: tag %v", vlan, port.TagRequest)
		}
		if m := u.Members[0]; m.Parent.UUID != ls.UUID || m.Element != port.UUID || m.Column != "ports" {
			t.Errorf("the port is in %+v", m)
		}
		acl := u.Rows[2].Model.(*nbdb.ACL)
		if acl.Match != `outport == "net_green_localnet" && udp.dst == 6081` || acl.Action != "drop" || u.Members[1].Element != acl.UUID {
			t.Errorf("ACL %+v in %+v", acl, u.Members[1])
		}
		if other, taken := uuids[port.UUID]; taken {
			t.Errorf("VLANs %d and %d have the same port, whose tag northd would keep", other, vlan)
		}
		uuids[port.UUID] = vlan
	}
	n := localnet(100)
	if n.PerNode() || n.Switch("n1") != "net_green" {
		t.Errorf("pods of n1 are on %s", n.Switch("n1"))
	}
	if pools, err := n.Pools("n1", 1); err != nil || len(pools) != 2 || !pools[0].Whole {
		t.Errorf("pools %v, %v", pools, err)
	}
	pod := topology.PodPortsUnit("demo", "web", []topology.PodPort{{Namespace: "demo", Name: "web", Network: n, Interface: "net1"}})
	if parent := pod.Members[0].Parent.UUID; parent != unit.UUID(nbdb.LogicalSwitchTable, "net_green") {
		t.Errorf("the pod's port is on %s", parent)
	}
}

// The port names the segment on which the node must probe its addresses, and its floating addresses. No other network has a segment,
// nor has a port without addresses.
func TestAddressesOnASegment(t *testing.T) {
	const localnetwork, layer2 = networkv1alpha1.TopologyLocalnet, networkv1alpha1.TopologyLayer2
	addresses := []netip.Prefix{netip.MustParsePrefix("10.77.0.50/16")}
	floating := []netip.Addr{addresses[0].Addr()}
	for name, test := range map[string]struct {
		topology         networkv1alpha1.NetworkTopology
		addresses        []netip.Prefix
		floating         []netip.Addr
		ids, wantSegment string
	}{
		"Localnet":                   {localnetwork, addresses, nil, "", "dc 100"},
		"Localnet, floating":         {localnetwork, addresses, floating, "10.77.0.50", "dc 100"},
		"Localnet without addresses": {localnetwork, nil, nil, "", ""},
		"Layer2":                     {layer2, addresses, nil, "", ""},
		"Layer2, floating":           {layer2, addresses, floating, "", ""},
	} {
		n := localnet(100)
		n.Topology = test.topology
		u := topology.PodPortsUnit("demo", "web", []topology.PodPort{{Namespace: "demo", Name: "web", Network: n, Interface: "net1",
			Addresses: test.addresses, Floating: test.floating}})
		ids := u.Rows[0].Model.(*nbdb.LogicalSwitchPort).ExternalIDs
		if ids["weft.dev/floating"] != test.ids || ids["weft.dev/segment"] != test.wantSegment {
			t.Errorf("%s: %v", name, ids)
		}
	}
}
