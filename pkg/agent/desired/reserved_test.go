package desired_test

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// reservations returns the reservations of node n1 and of a second node that has only an address.
func reservations() reserved.Table {
	return reserved.Table{
		Ports: reserved.Defaults(), Destinations: reserved.Remotes("the Kubernetes API server", "tcp:172.18.0.11:443"),
		Nodes:    map[netip.Addr]string{netip.MustParseAddr("172.18.0.11"): "n1", netip.MustParseAddr("172.18.0.12"): ""},
		Networks: nets("10.244.0.0/16"), Services: nets("10.96.0.0/16"),
	}
}

func TestReservedFrontendsAreLeftOut(t *testing.T) {
	for _, test := range []struct {
		name, address string // "": every address of the node
		port          uint16
		inside, kept  bool
	}{
		{"host port of kubelet", "", 10250, false, false},
		{"host port of the API server on this node", "", 443, false, false},
		{"free host port", "", 8080, false, true},
		{"loopback of the host", "127.0.0.1", 10248, false, false},
		{"kubelet of another node", "172.18.0.12", 10250, false, false},
		{"free port of another node", "172.18.0.12", 443, false, true},
		{"address of a pod", "10.244.1.7", 80, false, false},
		{"an address elsewhere", "203.0.113.7", 6443, false, true},
		{"an external IP in a service network", "10.96.0.10", 5353, false, false},
		{"a cluster IP", "10.96.0.1", 443, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := desired.Frontend{
				Protocol: corev1.ProtocolTCP, Port: test.port, ClusterIP: netip.MustParseAddr("10.96.0.7"), ClusterPort: 80,
				IsClusterIP: test.inside,
			}
			if test.address != "" {
				f.Address = netip.MustParseAddr(test.address)
			}
			if kept := desired.Unreserved([]desired.Frontend{f}, reservations()); len(kept) == 1 != test.kept {
				t.Errorf("kept %+v", kept)
			}
		})
	}
}

// Packets to a reserved port go to the host before conntrack assigns them to a connection.
func TestReservedPortsPassConntrack(t *testing.T) {
	b := desired.ExternalBridge{
		Physical: 1, Patch: 2, MAC: "02:00:00:18:00:11", Addresses: addrs("172.18.0.11", "fd00:18::11"),
		Ports:    addrs("172.18.0.11", "fd00:18::11"),
		Reserved: reservations(),
	}
	flows := b.Flows()
	tracks := slices.IndexFunc(flows, func(f desired.Flow) bool {
		return f.Table == 0 && strings.HasPrefix(f.Actions, "ct(table=1")
	})
	for _, match := range []string{
		"in_port=1,tcp,dl_dst=02:00:00:18:00:11,nw_dst=172.18.0.11,tp_dst=6641",
		"in_port=1,tcp6,dl_dst=02:00:00:18:00:11,ipv6_dst=fd00:18::11,tp_dst=10250",
		"in_port=1,udp,dl_dst=02:00:00:18:00:11,nw_dst=172.18.0.11,tp_dst=6081",
		"in_port=1,tcp,dl_dst=02:00:00:18:00:11,nw_dst=172.18.0.11,tp_dst=443",
	} {
		i := slices.IndexFunc(flows, func(f desired.Flow) bool { return f.Match == match })
		if i < 0 || flows[i].Table != 0 || flows[i].Priority <= flows[tracks].Priority || flows[i].Actions != "LOCAL" {
			t.Errorf("no flow sends %s to the host before conntrack", match)
		}
	}
	if slices.ContainsFunc(flows, func(f desired.Flow) bool {
		return strings.Contains(f.Match, "ipv6_dst=fd00:18::11,tp_dst=443")
	}) {
		t.Error("port 443 is reserved at an address that the API server does not have")
	}
}

func TestNodeAddressesAreRead(t *testing.T) {
	found := desired.NodeAddresses([]*sbdb.AddressSet{
		{Name: names.Inside("IPv4"), Addresses: []string{"10.244.0.0/16", "172.18.0.11"}},
		{Name: names.Inside("IPv6"), Addresses: []string{"fd00:18::11"}},
		{Name: "other", Addresses: []string{"192.0.2.1"}},
	})
	if len(found) != 2 {
		t.Errorf("found %v", found)
	}
	for _, want := range addrs("172.18.0.11", "fd00:18::11") {
		if _, ok := found[want]; !ok {
			t.Errorf("%s is missing in %v", want, found)
		}
	}
}

// The agent leaves the node's sessions of BGP and BFD alone.
func TestSessionsAreReserved(t *testing.T) {
	spec := networkv1alpha1.NodeNetworkSpec{BGP: &networkv1alpha1.NodeBGP{Peers: []networkv1alpha1.NodeBGPPeer{
		{Name: "tor", PeerAddress: "192.0.2.254", PeerPort: 179},
		{Name: "spine", PeerAddress: "2001:db8::fe", PeerPort: 1179, BFD: &networkv1alpha1.NodeBFD{}}}}}
	var found []string
	for _, d := range desired.Sessions(spec, addrs("192.0.2.253")) {
		found = append(found, d.Protocol+" "+netip.AddrPortFrom(d.Address, d.Number).String()+" "+d.Owner)
	}
	want := []string{"tcp 192.0.2.254:179 BGPPeer tor", "tcp [2001:db8::fe]:1179 BGPPeer spine",
		"udp [2001:db8::fe]:3784 BFD of BGPPeer spine", "udp [2001:db8::fe]:4784 BFD of BGPPeer spine",
		"udp 192.0.2.253:3784 BFD of an ExternalRoute"}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

// External IPs at addresses of nodes do not take node ports of other services, nor host ports of the node's pods.
func TestExternalIPsTakeNoPortOfTheNode(t *testing.T) {
	address := netip.MustParseAddr
	frontend := func(at, clusterIP string, port uint16) desired.Frontend {
		f := desired.Frontend{Protocol: corev1.ProtocolTCP, Port: port, ClusterIP: address(clusterIP), ClusterPort: 80}
		if at != "" {
			f.Address, f.Requested = address(at), true
		}
		return f
	}
	own, other, elsewhere := "172.18.0.11", "172.18.0.12", "203.0.113.7"
	nodePort, ownPort := frontend("", "10.96.0.8", 30080), frontend("", "10.96.0.7", 30081)
	hostPort := frontend("", "10.244.1.7", 8080)
	hostPort.Pod = true
	given := frontend(own, "10.96.0.7", 30080) // by a load balancer's controller
	given.Requested = false
	v6 := frontend("fd00::11", "fd00:10:96::7", 30080)
	kept := []desired.Frontend{nodePort, ownPort, hostPort, given, v6, frontend(own, "10.96.0.7", 30081), frontend(other, "10.96.0.7", 8080),
		frontend(elsewhere, "10.96.0.7", 30080), frontend(elsewhere, "10.96.0.7", 8080), frontend(own, "10.96.0.7", 80)}
	taken := []desired.Frontend{frontend(own, "10.96.0.7", 30080), frontend(other, "10.96.0.7", 30080), frontend(own, "10.96.0.7", 8080)}
	nodes := reservations().Nodes
	nodes[address("fd00::11")] = "n1"
	if have := desired.Unheld(slices.Concat(kept, taken), nodes, []netip.Addr{address(own)}); !reflect.DeepEqual(have, kept) {
		t.Errorf("kept %+v, want %+v", have, kept)
	}
}
