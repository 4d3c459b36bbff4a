package reserved_test

import (
	"net/netip"
	"testing"

	"github.com/weft-network/weft/pkg/ipam/reserved"
)

func table() reserved.Table {
	return reserved.Table{
		Ports: reserved.Defaults(),
		Destinations: []reserved.Destination{
			{Port: reserved.Port{Protocol: "tcp", Number: 443, Owner: "the Kubernetes API server"},
				Address: netip.MustParseAddr("192.0.2.1")},
			{Port: reserved.Port{Protocol: "tcp", Number: 443, Owner: "the Kubernetes API server"},
				Address: netip.MustParseAddr("198.51.100.9")},
		},
		Nodes: map[netip.Addr]string{netip.MustParseAddr("192.0.2.1"): "n1", netip.MustParseAddr("2001:db8::1"): "n1",
			netip.MustParseAddr("192.0.2.2"): ""},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
	}
}

func TestAt(t *testing.T) {
	for _, test := range []struct{ protocol, destination, owner string }{
		{"TCP", "192.0.2.1:10250", "kubelet on node n1"},
		{"tcp", "[2001:db8::1]:10250", "kubelet on node n1"},
		{"tcp", "192.0.2.2:6641", "the OVN northbound database"},
		{"tcp", "[2001:db8::1]:16643", "relays of the OVN southbound database on node n1"},
		{"UDP", "192.0.2.2:6081", "Geneve tunnels"},
		{"tcp", "127.0.0.1:10248", "kubelet"},
		{"tcp", "[::1]:10248", "kubelet"},
		{"tcp", "192.0.2.1:443", "the Kubernetes API server"},
		{"tcp", "198.51.100.9:443", "the Kubernetes API server"},
		{"tcp", "[::ffff:198.51.100.9]:443", "the Kubernetes API server"},
		{"tcp", "10.244.1.7:80", "the cluster's own network 10.244.0.0/16"},
		{"udp", "10.96.0.10:5353", "the cluster's own network 10.96.0.0/16"},
		{"tcp", "198.51.100.9:2379", "etcd"},  // beside the API server
		{"udp", "192.0.2.1:10250", ""},        // another protocol
		{"tcp", "192.0.2.2:443", ""},          // a node without the API server
		{"tcp", "198.51.100.9:80", ""},        // another port of the API server's address
		{"tcp", "203.0.113.5:6443", ""},       // no address of the cluster
		{"tcp", "203.0.113.5:10250", ""},      // the same
		{"tcp", "192.0.2.1:8080", ""},         // a port that is free
		{"tcp", "[2001:db8::ff]:10250", ""},   // no address of the cluster
		{"sctp", "192.0.2.1:6641", ""},        // another protocol
		{"tcp", "[2001:db8::1]:16646", ""},    // a port that is free
		{"tcp", "10.245.0.1:10250", ""},       // beside the networks
		{"tcp", "[fd00:10:244::1]:10250", ""}, // beside the networks
	} {
		owner, ok := table().At(netip.MustParseAddrPort(test.destination), test.protocol)
		if owner != test.owner || ok != (test.owner != "") {
			t.Errorf("%s %s is reserved for %q (%v), want %q", test.protocol, test.destination, owner, ok, test.owner)
		}
	}
}

func TestOnNodes(t *testing.T) {
	for _, test := range []struct {
		protocol string
		port     uint16
		owner    string
	}{{"TCP", 6641, "the OVN northbound database"}, {"TCP", 443, "the Kubernetes API server"}, {"UDP", 443, ""}, {"TCP", 80, ""}} {
		if owner, ok := table().OnNodes(test.protocol, test.port); owner != test.owner || ok != (test.owner != "") {
			t.Errorf("%s port %d is reserved for %q (%v), want %q", test.protocol, test.port, owner, ok, test.owner)
		}
	}
	elsewhere := table()
	delete(elsewhere.Nodes, netip.MustParseAddr("192.0.2.1"))
	if owner, ok := elsewhere.OnNodes("TCP", 443); ok {
		t.Errorf("port 443 of an API server elsewhere is reserved on nodes for %q", owner)
	}
}

// Of two entries for one port the first keeps its owner, and no port occurs twice.
func TestWithPorts(t *testing.T) {
	base := reserved.Table{Ports: reserved.Defaults()}
	got := base.WithPorts(reserved.Port{Protocol: "tcp", Number: 10250, Owner: "a user"},
		reserved.Port{Protocol: "tcp", Number: 5000, Owner: "registry"})
	if len(got.Ports) != len(base.Ports)+1 {
		t.Errorf("%d ports, want %d", len(got.Ports), len(base.Ports)+1)
	}
	if owner, _ := got.OnNodes("tcp", 10250); owner != "kubelet" {
		t.Errorf("port 10250 is reserved for %q", owner)
	}
	if owner, _ := got.OnNodes("tcp", 5000); owner != "registry" {
		t.Errorf("port 5000 is reserved for %q", owner)
	}
}

func TestRemotes(t *testing.T) {
	found := reserved.Remotes("db", "ssl:192.0.2.1:6641", "tcp:[2001:db8::1]:6641", "unix:/run/ovn/db.sock", "ssl:db.example:6641")
	if len(found) != 2 || found[0].Address.String() != "192.0.2.1" || found[1].Address.String() != "2001:db8::1" ||
		found[1].Number != 6641 {
		t.Errorf("found %+v", found)
	}
}

// A session reserves its port at the router's address alone, also if the router is a program of a node.
func TestSessionsReserveOneAddress(t *testing.T) {
	router := netip.MustParseAddr("192.0.2.11")
	table := reserved.Table{Ports: reserved.Defaults(), Nodes: map[netip.Addr]string{router: "n1"},
		Sessions: []reserved.Destination{{Port: reserved.Port{Protocol: "tcp", Number: 179, Owner: "BGPPeer tor"}, Address: router}}}
	if owner, ok := table.At(netip.AddrPortFrom(router, 179), "TCP"); !ok || owner != "BGPPeer tor" {
		t.Errorf("the session belongs to %q", owner)
	}
	if _, ok := table.At(netip.AddrPortFrom(router, 180), "TCP"); ok {
		t.Error("another port is reserved")
	}
	if owner, ok := table.OnNodes("tcp", 179); ok {
		t.Errorf("host ports are reserved for %s", owner)
	}
	if table.Has(router) {
		t.Error("the router counts as a machine of the control plane")
	}
}
