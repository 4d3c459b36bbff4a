package topology_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

func localnet(vlan int32) topology.PodNetwork {
	n, err := topology.ParseNetwork(networkObject(networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLocalnet,
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

func TestPhysicalNetworksOfANode(t *testing.T) {
	rack := &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "a"}}
	all := []networkv1alpha1.PhysicalNetwork{{Name: "dc", Link: "eth1", NodeSelector: rack}, {Name: "storage", Bridge: "br-s"}}
	for want, node := range map[string]labels.Set{"dc eth1 , storage  br-s": {"rack": "a"}, "storage  br-s": {"rack": "b"}} {
		found, err := topology.NodePhysicalNetworks(all, node)
		var have []string
		for _, p := range found {
			have = append(have, strings.Join([]string{string(p.Name), p.Link, p.Bridge}, " "))
		}
		if got := strings.Join(have, ", "); err != nil || got != want {
			t.Errorf("%v: %q, %v; want %q", node, got, err, want)
		}
	}
	if err := topology.CheckPhysicalNetworks(all); err != nil {
		t.Error(err)
	}
	rack.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Like"}}
	const field = "spec.physicalNetworks[0].nodeSelector"
	_, err := topology.NodePhysicalNetworks(all, nil)
	for _, err := range []error{err, topology.CheckPhysicalNetworks(all)} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error is %v; want %s", err, field)
		}
	}
}

// The reason why a node does not reach a physical network names both.
func TestNodesWithoutThePhysicalNetwork(t *testing.T) {
	type status = networkv1alpha1.NodePhysicalNetworkStatus
	dc := []networkv1alpha1.NodePhysicalNetwork{{Name: "dc", Link: "eth1"}}
	for name, test := range map[string]struct {
		network  string
		selected []networkv1alpha1.NodePhysicalNetwork
		reported []status
		want     string // empty: the node reaches it
	}{
		"another topology": {},
		"connected":        {"dc", dc, []status{{Name: "dc", Ready: true, Bridge: "breth1"}}, ""},
		"the gateway's":    {"physnet", nil, []status{{Name: "physnet", Ready: true, Bridge: "breth0"}}, ""},
		"not selected":     {"dc", nil, []status{{Name: "storage", Ready: true}}, "node n1 has no physical network dc: no entry"},
		"not reported yet": {"dc", dc, nil, "node n1 is not connected with physical network dc: weft-agent has not reported it yet"},
		"failed": {"dc", dc, []status{{Name: "dc", Message: "link eth1: the node has no such link"}},
			"node n1 is not connected with physical network dc: link eth1: the node has no such link"},
		"no gateway": {"physnet", nil, nil, "node n1 has no physical network physnet: its gateway has no bridge"},
	} {
		t.Run(name, func(t *testing.T) {
			nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
			nn.Spec.PhysicalNetworks, nn.Status.PhysicalNetworks = test.selected, test.reported
			err := topology.PodNetwork{PhysicalNetwork: test.network}.MissingOn(nn)
			if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
}

func TestUnknownPhysicalNetworks(t *testing.T) {
	cn := networkv1alpha1.ClusterNetworkSpec{PhysicalNetworks: []networkv1alpha1.PhysicalNetwork{{Name: "dc", Link: "eth1"}}}
	for network, known := range map[string]bool{"": true, "dc": true, "physnet": true, "storage": false} {
		err := topology.PodNetwork{PhysicalNetwork: network}.UnknownTo(cn)
		if (err == nil) != known || err != nil && !strings.Contains(err.Error(), "no entry "+network+" in spec.physicalNetworks") {
			t.Errorf("%q: %v", network, err)
		}
	}
}
