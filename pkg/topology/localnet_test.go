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

// The port names the addresses that the node must probe, and their segment. No other network has a segment.
func TestFloatingAddressesOnASegment(t *testing.T) {
	address := netip.MustParsePrefix("10.77.0.50/16")
	for _, test := range []struct {
		topology networkv1alpha1.NetworkTopology
		want     string
	}{{networkv1alpha1.TopologyLocalnet, "10.77.0.50"}, {networkv1alpha1.TopologyLayer2, ""}} {
		n := localnet(100)
		n.Topology = test.topology
		u := topology.PodPortsUnit("demo", "web", []topology.PodPort{{Namespace: "demo", Name: "web", Network: n, Interface: "net1",
			Addresses: []netip.Prefix{address}, Floating: []netip.Addr{address.Addr()}}})
		ids := u.Rows[0].Model.(*nbdb.LogicalSwitchPort).ExternalIDs
		segment := ""
		if test.want != "" {
			segment = n.PhysicalNetwork + " 100"
		}
		if ids["weft.dev/floating"] != test.want || ids["weft.dev/segment"] != segment {
			t.Errorf("%s: %v", test.topology, ids)
		}
	}
}
