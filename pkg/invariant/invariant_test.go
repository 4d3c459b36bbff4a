package invariant_test

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

func TestGoodWorldHasNoViolations(t *testing.T) {
	for _, v := range invariant.Check(newWorld(t).World) {
		t.Error(v)
	}
}

// violation changes a good world so that it violates an invariant.
type violation struct {
	invariant, name string
	words           []string
	breaks          func(*world)
}

// Each violates one invariant and no other. The words are in its message or name the rows concerned.
var violations = []violation{
	{"OwnerLives", "a pod that does not exist", []string{"Address_Set", "pod/default/gone"}, func(w *world) {
		w.put(&nbdb.AddressSet{UUID: "1", Name: "set", ExternalIDs: map[string]string{unit.OwnerKey: "pod/default/gone"}})
	}},
	{"OwnerLives", "a pod that has ended", []string{"pod/default/done"}, func(w *world) {
		w.put(&nbdb.AddressSet{UUID: "1", Name: "set", ExternalIDs: map[string]string{unit.OwnerKey: "pod/default/done"}})
	}},
	{"OwnerLives", "a node that does not exist", []string{"node/gone"}, func(w *world) {
		w.put(&nbdb.AddressSet{UUID: "1", Name: "set", ExternalIDs: map[string]string{unit.OwnerKey: "node/gone"}})
	}},
	{"OwnerLives", "a service that does not exist", []string{"service/default/gone"}, func(w *world) {
		w.put(&nbdb.AddressSet{UUID: "1", Name: "set", ExternalIDs: map[string]string{unit.OwnerKey: "service/default/gone"}})
	}},
	{"OwnerLives", "a firewall that does not exist", []string{"egressfirewall/gone/default"}, func(w *world) {
		w.put(&nbdb.AddressSet{UUID: "1", Name: "set", ExternalIDs: map[string]string{unit.OwnerKey: "egressfirewall/gone/default"}})
	}},
	{"OwnerLives", "an EgressQoS that does not exist", []string{"egressqos/gone/default"}, func(w *world) {
		w.put(&nbdb.AddressSet{UUID: "1", Name: "set", ExternalIDs: map[string]string{unit.OwnerKey: "egressqos/gone/default"}})
	}},
	{"OwnerLives", "a namespace that requests no multicast", []string{"multicast/gone"}, func(w *world) {
		w.put(&nbdb.AddressSet{UUID: "1", Name: "set", ExternalIDs: map[string]string{unit.OwnerKey: "multicast/gone"}})
	}},
	{"OwnerLives", "a set without a user", []string{"dns/gone.example.org"}, func(w *world) {
		w.put(&nbdb.AddressSet{UUID: "1", Name: "set", ExternalIDs: map[string]string{unit.OwnerKey: "dns/gone.example.org"}})
	}},
	{"FirewallOfNamespace", "a port that is not in the group", []string{"default_a", "EgressFirewall default/default"}, func(w *world) {
		g := find[nbdb.PortGroup](w, nbdb.PortGroupTable, "ns_default")
		g.Ports = slices.DeleteFunc(g.Ports, func(p string) bool { return p == w.port("a").UUID })
	}},
	{"FirewallOfNamespace", "a host's port in the group", []string{"k8s-n1"}, func(w *world) {
		g := find[nbdb.PortGroup](w, nbdb.PortGroupTable, "ns_default")
		g.Ports = append(g.Ports, find[nbdb.LogicalSwitchPort](w, nbdb.LogicalSwitchPortTable, "k8s-n1").UUID)
	}},
	{"FirewallOfNamespace", "a group without its rules", []string{"namespace default"}, func(w *world) {
		find[nbdb.PortGroup](w, nbdb.PortGroupTable, "ns_default").ACLs = nil
	}},
	{"PolicyOfSelected", "a port that is not in the group", []string{"podgroup/", "is missing"}, func(w *world) {
		g := w.policyGroup()
		g.Ports = slices.DeleteFunc(g.Ports, func(p string) bool { return p == w.port("c").UUID })
	}},
	{"PolicyOfSelected", "a host's port in the group", []string{"podgroup/", "should not be there"}, func(w *world) {
		w.policyGroup().Ports = append(w.policyGroup().Ports, find[nbdb.LogicalSwitchPort](w, nbdb.LogicalSwitchPortTable, "k8s-n1").UUID)
	}},
	{"PolicyOfSelected", "an address that no pod has", []string{"podset/", "10.244.0.99", "should not be there"}, func(w *world) {
		for _, row := range w.Northbound[nbdb.AddressSetTable] {
			if set := row.(*nbdb.AddressSet); strings.HasPrefix(set.Name, "podset_") && strings.HasSuffix(set.Name, "IPv4") {
				set.Addresses = append(set.Addresses, "10.244.0.99")
			}
		}
	}},
	{"PolicyHasRules", "without an ACL", []string{"networkpolicy/default/web has no ACL"}, func(w *world) {
		w.policyGroup().ACLs = nil
		w.Northbound[nbdb.ACLTable] = slices.DeleteFunc(w.Northbound[nbdb.ACLTable], func(row model.Model) bool {
			return row.(*nbdb.ACL).ExternalIDs[unit.OwnerKey] == "networkpolicy/default/web"
		})
	}},
	{"OwnerLives", "of a policy that is gone", []string{"networkpolicy/default/gone"}, func(w *world) {
		w.put(&nbdb.ACL{UUID: "1", Match: "ip4", ExternalIDs: map[string]string{unit.OwnerKey: "networkpolicy/default/gone"}})
		w.policyGroup().ACLs = append(w.policyGroup().ACLs, "1")
	}},
	{"SetsExist", "a set of a QoS rule that is gone", []string{"QoS ", "$podset_", "_IPv4"}, func(w *world) {
		for _, row := range w.Northbound[nbdb.QoSTable] {
			if rule := row.(*nbdb.QoS); rule.ExternalIDs[unit.OwnerKey] == "egressqos/default/default" {
				rule.Match = strings.ReplaceAll(rule.Match, "$podset_", "$podset_gone_")
			}
		}
	}},
	{"SetsExist", "a set that is gone", []string{"$dns_www.example.org_IPv6"}, func(w *world) {
		w.Northbound[nbdb.AddressSetTable] = slices.DeleteFunc(w.Northbound[nbdb.AddressSetTable], func(row model.Model) bool {
			set, ok := row.(*nbdb.AddressSet)
			return ok && set.Name == "dns_www.example.org_IPv6"
		})
	}},
	{"BalancerOnEveryNode", "not in the group", []string{"Service_default/web_TCP_cluster", "clusterLBGroup"}, func(w *world) {
		find[nbdb.LoadBalancerGroup](w, nbdb.LoadBalancerGroupTable, names.ClusterLoadBalancers).LoadBalancer = nil
	}},
	{"BalancerOnEveryNode", "a node's own balancer, which the node lacks", []string{"TCP_cluster_of_n1", "no node's switch or router"},
		func(w *world) {
			w.put(&nbdb.LoadBalancer{UUID: "1", Name: "Service_default/web_TCP_cluster_of_n1", ExternalIDs: owned()})
		}},
	{"BalancerOnEveryNode", "a switch without the group", []string{"switch n1", "clusterLBGroup"}, func(w *world) {
		w.nodeSwitch("n1").LoadBalancerGroup = nil
	}},
	{"ReservedIsFree", "a host port of kubelet", []string{"^NODEIP_IPv4_0:10250", "kubelet"}, func(w *world) {
		find[nbdb.LoadBalancer](w, nbdb.LoadBalancerTable, "Service_default/web_TCP_cluster").Vips["^NODEIP_IPv4_0:10250"] = ""
	}},
	{"ReservedIsFree", "a node's address", []string{"192.0.2.201:6641", "the OVN northbound database on node n1"}, func(w *world) {
		w.Nodes[0].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.201"}}
		find[nbdb.LoadBalancer](w, nbdb.LoadBalancerTable, "Service_default/web_TCP_cluster").Vips["192.0.2.201:6641"] = ""
	}},
	{"ReferencesResolve", "a group without its port", []string{"Port_Group pods", "ports"}, func(w *world) {
		w.put(&nbdb.PortGroup{UUID: "1", Name: "pods", Ports: []string{w.port("a").UUID, "absent"}, ExternalIDs: owned()})
	}},
	{"UniqueName", "a foreign switch named as a node's", []string{"Logical_Switch", "n1"}, func(w *world) {
		w.put(&nbdb.LogicalSwitch{UUID: "1", Name: "n1"})
	}},
	{"Singletons", "two join switches", []string{"2 rows", "join"}, func(w *world) {
		w.put(&nbdb.LogicalSwitch{UUID: "1", Name: names.JoinSwitch})
	}},
	{"Singletons", "a foreign join switch alone", []string{"join"}, func(w *world) {
		find[nbdb.LogicalSwitch](w, nbdb.LogicalSwitchTable, names.JoinSwitch).ExternalIDs = nil
	}},
	{"PortOnOneSwitch", "on two", []string{"default_a", "2 switches: [join n1]"}, func(w *world) {
		join := find[nbdb.LogicalSwitch](w, nbdb.LogicalSwitchTable, names.JoinSwitch)
		join.Ports = append(join.Ports, w.port("a").UUID)
	}},
	{"PortOnOneSwitch", "on none", []string{"default_a", "no switch"}, func(w *world) {
		s, id := w.nodeSwitch("n1"), w.port("a").UUID
		s.Ports = slices.DeleteFunc(s.Ports, func(p string) bool { return p == id })
	}},
	{"RouterPortOnOneRouter", "on two", []string{"rtos-n1", "2 routers"}, func(w *world) {
		w.put(&nbdb.LogicalRouter{UUID: "1", Name: "other",
			Ports: []string{find[nbdb.LogicalRouterPort](w, nbdb.LogicalRouterPortTable, "rtos-n1").UUID}})
	}},
	{"RouterPortOnOneRouter", "on none", []string{"rtos-n1", "no router"}, func(w *world) {
		id := find[nbdb.LogicalRouterPort](w, nbdb.LogicalRouterPortTable, "rtos-n1").UUID
		w.router().Ports = slices.DeleteFunc(w.router().Ports, func(p string) bool { return p == id })
	}},
	{"PeersExist", "a switch port to nowhere", []string{"stor-n1", "nowhere"}, func(w *world) {
		find[nbdb.LogicalSwitchPort](w, nbdb.LogicalSwitchPortTable, "stor-n1").Options["router-port"] = "nowhere"
	}},
	{"PeersExist", "a router port to nowhere", []string{"rtox", "nowhere"}, func(w *world) {
		peer := "nowhere"
		w.put(&nbdb.LogicalRouterPort{UUID: "1", Name: "rtox", Peer: &peer, ExternalIDs: owned()})
		w.router().Ports = append(w.router().Ports, "1")
	}},
	{"PeersExist", "two switch ports to one router port", []string{"rtos-n1", "2 switch ports"}, func(w *world) {
		w.put(&nbdb.LogicalSwitchPort{UUID: "1", Name: "foreign", Type: "router", Options: map[string]string{"router-port": "rtos-n1"}})
	}},
	{"UniqueRoute", "of two units", []string{"10.9.0.0/16"}, func(w *world) {
		w.put(&nbdb.LogicalRouterStaticRoute{UUID: "1", IPPrefix: "10.9.0.0/16", Nexthop: "100.64.0.2", ExternalIDs: owned()})
		w.put(&nbdb.LogicalRouterStaticRoute{UUID: "2", IPPrefix: "10.9.0.0/16", Nexthop: "100.64.0.3",
			ExternalIDs: map[string]string{unit.OwnerKey: "node/n1"}})
		w.router().StaticRoutes = append(w.router().StaticRoutes, "1", "2")
	}},
	{"UniqueRoute", "the same twice", []string{"10.9.0.0/16"}, func(w *world) {
		for _, id := range []string{"1", "2"} {
			w.put(&nbdb.LogicalRouterStaticRoute{UUID: id, IPPrefix: "10.9.0.0/16", Nexthop: "100.64.0.2", ExternalIDs: owned()})
		}
		w.router().StaticRoutes = append(w.router().StaticRoutes, "1", "2")
	}},
	{"UniqueNAT", "one address twice", []string{"192.0.2.1"}, func(w *world) {
		for _, id := range []string{"1", "2"} {
			w.put(&nbdb.NAT{UUID: id, Type: nbdb.NATTypeSNAT, ExternalIP: "192.0.2.1", LogicalIP: "10.244.0.0/16", ExternalIDs: owned()})
		}
		w.router().Nat = []string{"1", "2"}
	}},
	{"UniqueACL", "one ACL twice", []string{"Port_Group", "ip4"}, func(w *world) {
		for _, id := range []string{"1", "2"} {
			w.put(&nbdb.ACL{UUID: id, Direction: nbdb.ACLDirectionToLport, Priority: 1000, Match: "ip4", ExternalIDs: owned()})
		}
		w.put(&nbdb.PortGroup{UUID: "3", Name: "group", ACLs: []string{"1", "2"}, ExternalIDs: owned()})
	}},
	{"TunnelKeyInRange", "a port beyond multicast groups", []string{"default_a", "32768", "1..32767"}, func(w *world) {
		w.port("a").Options["requested-tnl-key"] = "32768"
	}},
	{"TunnelKeyInRange", "no number", []string{"n1", "none"}, func(w *world) {
		w.nodeSwitch("n1").OtherConfig["requested-tnl-key"] = "none"
	}},
	{"UniqueTunnelKey", "two ports of a switch", []string{"2 rows", "22", "switch n1"}, func(w *world) {
		w.port("a").Options["requested-tnl-key"] = "22"
		w.copySouthbound()
	}},
	{"UniqueTunnelKey", "a foreign switch", []string{"2 rows", "65537", "the network"}, func(w *world) {
		w.put(&nbdb.LogicalSwitch{UUID: "1", Name: "foreign", OtherConfig: map[string]string{"requested-tnl-key": "65537"}})
	}},
	{"SouthboundKeys", "of a port", []string{"default_a", "21", "99"}, func(w *world) {
		for _, row := range w.Southbound[sbdb.PortBindingTable] {
			if p := row.(*sbdb.PortBinding); p.LogicalPort == "default_a" {
				p.TunnelKey = 99
			}
		}
	}},
	{"SouthboundKeys", "of a switch", []string{"Logical_Switch n1", "65537", "99"}, func(w *world) {
		for _, row := range w.Southbound[sbdb.DatapathBindingTable] {
			if d := row.(*sbdb.DatapathBinding); d.ExternalIDs["logical-switch"] == w.nodeSwitch("n1").UUID {
				d.TunnelKey = 99
			}
		}
	}},
	{"UniqueAddress", "of two pods", []string{"10.244.0.6", "default_a", "default_b"}, func(w *world) {
		w.address("a", "10.244.0.5", "10.244.0.6")
	}},
	{"UniqueAddress", "of a foreign port on our switch", []string{"fd00:10:244::5", "foreign"}, func(w *world) {
		w.put(&nbdb.LogicalSwitchPort{UUID: "1", Name: "foreign", Addresses: []string{"02:00:00:00:00:01 fd00:10:244::5"}})
		w.nodeSwitch("n1").Ports = append(w.nodeSwitch("n1").Ports, "1")
	}},
	{"UniqueAddress", "of a router", []string{"10.244.0.1", "rtox", "rtos-n1"}, func(w *world) {
		rtos := find[nbdb.LogicalRouterPort](w, nbdb.LogicalRouterPortTable, "rtos-n1")
		peer := "rtos-n1"
		w.put(&nbdb.LogicalRouterPort{UUID: "1", Name: "rtox", Peer: &peer, Networks: []string{rtos.Networks[0]}, ExternalIDs: owned()})
		w.router().Ports = append(w.router().Ports, "1")
	}},
	{"UniqueMAC", "of two pods", []string{"0a:58:0a:f4:00:06", "default_a", "default_b", "switch n1"}, func(w *world) {
		w.address("a", "0a:58:0a:f4:00:05", "0a:58:0a:f4:00:06")
	}},
	{"UniqueMAC", "of the router", []string{"0a:58:0a:f4:00:01", "default_a", "stor-n1"}, func(w *world) {
		w.address("a", "0a:58:0a:f4:00:05", "0a:58:0a:f4:00:01")
	}},
	{"PortSecurity", "off", []string{"default_a", "port_security []"}, func(w *world) { w.port("a").PortSecurity = nil }},
	{"PortSecurity", "for another's address", []string{"default_a"}, func(w *world) { w.port("a").PortSecurity = w.port("b").Addresses }},
	{"PodHasPort", "none", []string{"default/d", "no port"}, func(w *world) {
		w.Pods = append(w.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"},
			Spec: corev1.PodSpec{NodeName: "n1"}})
	}},
	{"PodHasPort", "that of a pod before it", []string{"default_c", "uid-c", "uid-new"}, func(w *world) {
		w.Pods[2].UID = "uid-new"
		find[nbdb.LogicalSwitchPort](w, nbdb.LogicalSwitchPortTable, "green_default_c_net1").Options["iface-id-ver"] = "uid-new"
	}},
	{"PodHasPort", "on another node", []string{"default_a", "switch n2", "node n1"}, func(w *world) {
		n1, n2, id := w.nodeSwitch("n1"), w.nodeSwitch("n2"), w.port("a").UUID
		w.port("a").Options["requested-tnl-key"] = "77"
		w.copySouthbound()
		n1.Ports = slices.DeleteFunc(n1.Ports, func(p string) bool { return p == id })
		n2.Ports = append(n2.Ports, id)
	}},
	{"PodAddressInSubnet", "outside", []string{"default_a", "10.244.9.5", "NodeNetwork n1"}, func(w *world) {
		w.address("a", "10.244.0.5", "10.244.9.5")
	}},
	{"PodAddressInSubnet", "the broadcast address", []string{"10.244.0.255"}, func(w *world) {
		w.address("a", "10.244.0.5", "10.244.0.255")
	}},
	{"PodAddressInSubnet", "no IPv6", []string{"0 addresses", "fd00:10:244::/64"}, func(w *world) {
		w.address("a", " fd00:10:244::5", "")
		w.Pods[0].Status.PodIPs = w.Pods[0].Status.PodIPs[:1]
		w.ClusterNetwork.Status.Addresses[1].Used, w.ClusterNetwork.Status.Addresses[1].Free = 2, 98
	}},
	{"PodReportsAddress", "another", []string{"default/a", "10.244.0.77"}, func(w *world) {
		w.Pods[0].Status.PodIPs[0].IP = "10.244.0.77"
	}},
	{"PortOnItsChassis", "a pod's", []string{"default_a", "elsewhere", "chassis-n1"}, func(w *world) {
		w.port("a").Options["requested-chassis"] = "elsewhere"
	}},
	{"PortOnItsChassis", "the management port", []string{"k8s-n1"}, func(w *world) {
		delete(find[nbdb.LogicalSwitchPort](w, nbdb.LogicalSwitchPortTable, "k8s-n1").Options, "requested-chassis")
	}},
	{"NodeHasSwitch", "the router has other addresses", []string{"rtos-n1", "10.244.0.1/24"}, func(w *world) {
		find[nbdb.LogicalRouterPort](w, nbdb.LogicalRouterPortTable, "rtos-n1").Networks = []string{"10.244.0.9/24"}
	}},
	{"NodeHasSwitch", "the switch is another unit's", []string{"n1", "no switch"}, func(w *world) {
		w.nodeSwitch("n1").ExternalIDs[unit.OwnerKey] = "network/default"
	}},
	{"ManagementPort", "another MAC", []string{"k8s-n1", "02:00:00:00:00:09"}, func(w *world) {
		port := find[nbdb.LogicalSwitchPort](w, nbdb.LogicalSwitchPortTable, "k8s-n1")
		port.Addresses = []string{"02:00:00:00:00:09 " + strings.SplitN(port.Addresses[0], " ", 2)[1]}
	}},
	{"ManagementPort", "none", []string{"0 management ports", "n1"}, func(w *world) {
		port := find[nbdb.LogicalSwitchPort](w, nbdb.LogicalSwitchPortTable, "k8s-n1")
		w.Northbound[nbdb.LogicalSwitchPortTable] = slices.DeleteFunc(w.Northbound[nbdb.LogicalSwitchPortTable], func(m model.Model) bool {
			return m == model.Model(port)
		})
		s := w.nodeSwitch("n1")
		s.Ports = slices.DeleteFunc(s.Ports, func(p string) bool { return p == port.UUID })
		group := find[nbdb.PortGroup](w, nbdb.PortGroupTable, names.ManagementPorts)
		group.Ports = slices.DeleteFunc(group.Ports, func(p string) bool { return p == port.UUID })
	}},
	{"UniqueNodeID", "twice", []string{"node ID 1", "n1", "n3"}, func(w *world) {
		w.stranger(func(nn *networkv1alpha1.NodeNetwork) { nn.Spec.NodeID = 1 })
	}},
	{"UniqueNodeID", "out of range", []string{"16001", "n3"}, func(w *world) {
		w.stranger(func(nn *networkv1alpha1.NodeNetwork) { nn.Spec.NodeID = 16001 })
	}},
	{"DisjointSubnets", "the same", []string{"10.244.0.0/24", "n1", "n3"}, func(w *world) {
		w.stranger(func(nn *networkv1alpha1.NodeNetwork) { nn.Spec.PodSubnets = []networkv1alpha1.CIDR{"10.244.0.0/24"} })
	}},
	{"DisjointSubnets", "one in another that is not its neighbour in order", []string{"10.244.1.0/24", "10.244.0.0/17"}, func(w *world) {
		w.stranger(func(nn *networkv1alpha1.NodeNetwork) { nn.Spec.PodSubnets = []networkv1alpha1.CIDR{"10.244.0.0/17"} })
	}},
	{"SubnetInNetwork", "in none", []string{"10.99.0.0/24", "n3"}, func(w *world) {
		w.stranger(func(nn *networkv1alpha1.NodeNetwork) { nn.Spec.PodSubnets = []networkv1alpha1.CIDR{"10.99.0.0/24"} })
	}},
	{"UniqueChassis", "of two nodes", []string{"chassis-n1", "n3"}, func(w *world) {
		w.stranger(func(nn *networkv1alpha1.NodeNetwork) { nn.Status.Chassis = "chassis-n1" })
	}},
	{"BalancerAnswersOnce", "another router than the status says",
		[]string{"loadbalancerpool/edge 192.0.2.8 n2", "should not be there", "loadbalancerpool/edge 192.0.2.8 n1", "is missing"},
		func(w *world) {
			pool := networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
			pool.Status.Announcements = []networkv1alpha1.LoadBalancerAnnouncement{{Address: "192.0.2.8", Node: "n1"}}
			w.LoadBalancerPools = append(w.LoadBalancerPools, pool)
			router := names.GatewayRouter("n2")
			w.put(&nbdb.LogicalRouter{UUID: unit.UUID(nbdb.LogicalRouterTable, router), Name: router, ExternalIDs: owned()})
			set := names.RouterAddresses("n2", "IPv4")
			w.put(&nbdb.AddressSet{UUID: unit.UUID(nbdb.AddressSetTable, set), Name: set, ExternalIDs: owned()})
			w.add(topology.LoadBalancerPoolUnit(facts.LoadBalancerPool{Name: "edge",
				Announced: []facts.AnnouncedAddress{{Address: netip.MustParseAddr("192.0.2.8"), Node: "n2"}}}))
		}},
	{"EgressWhereCarried", "a translation that stayed behind",
		[]string{"egressip/team 192.0.2.7 n1", "should not be there", "egressip/team 192.0.2.7 n2", "is missing"}, func(w *world) {
			w.EgressIPs[0].Status.Items[0].Node = "n2"
			w.put(&nbdb.LogicalRouter{UUID: "1", Name: names.GatewayRouter("n2"), ExternalIDs: owned()})
		}},
	{"EgressWhereCarried", "a policy that sends elsewhere",
		[]string{"egressip/team n1 false", "is missing", "egressip/team n2 false"}, func(w *world) {
			other, err := w.nodeNetwork("n2").Spec.JoinAddresses[0].Prefix()
			if err != nil {
				w.Fatal(err)
			}
			for _, row := range w.Northbound[nbdb.LogicalRouterPolicyTable] {
				if policy := row.(*nbdb.LogicalRouterPolicy); len(policy.Nexthops) > 0 &&
					policy.ExternalIDs[unit.OwnerKey] == "egressip/team" {
					policy.Nexthops = []string{other.Addr().String()}
				}
			}
		}},
	{"EgressOfSelected", "a pod that is not selected any more",
		[]string{"egressip/team 10.244.1.5", "should not be there"}, func(w *world) {
			delete(w.Pods[2].Labels, "out")
		}},
	{"EgressOfSelected", "a pod that is selected", []string{"egressip/team 10.244.0.6", "is missing"}, func(w *world) {
		w.Pods[1].Labels = map[string]string{"out": "yes"}
	}},
	{"RoutesOfSelected", "a pod that is not selected any more", []string{"pod/default/a 10.244.0.5 192.0.2.200 GR_n1 should not be there"},
		func(w *world) {
			w.route("a")
			w.ExternalRoutes[0].Spec.PodSelector.MatchLabels = map[string]string{"out": "elsewhere"}
			w.routedSet().Addresses = nil
		}},
	{"RoutesOfSelected", "a pod without its route", []string{"pod/default/a 10.244.0.5 192.0.2.200 GR_n1 is missing"}, func(w *world) {
		w.route("a")
		find[nbdb.LogicalRouter](w, nbdb.LogicalRouterTable, names.GatewayRouter("n1")).StaticRoutes = nil
	}},
	{"RoutedNotTranslated", "a pod that is translated", []string{"10.244.0.5 is missing"}, func(w *world) {
		w.route("a")
		w.routedSet().Addresses = nil
	}},
	{"FloatingHeldByOne", "a pod with another pod's address", []string{"10.245.0.5", "default_b", "default_floating"}, func(w *world) {
		w.port("b").ExternalIDs["weft.dev/translated"] = "10.245.0.5"
	}},
	{"FloatingHeldByOne", "two translations", []string{"192.0.2.8 has 2 translations"}, func(w *world) {
		w.put(&nbdb.NAT{UUID: "1", Type: nbdb.NATTypeDNATAndSNAT, ExternalIP: "192.0.2.8", LogicalIP: "10.244.0.6",
			ExternalIDs: map[string]string{unit.OwnerKey: "pod/default/b"}})
	}},
	{"FloatingHeldByOne", "two FloatingIPs", []string{"192.0.2.8", "other"}, func(w *world) {
		double := w.FloatingIPs[0]
		double.Name, double.Spec.Holder = "other", nil
		w.FloatingIPs = append(w.FloatingIPs, double)
	}},
	{"FloatingWhereHeld", "an address that another node routes",
		[]string{"pod/default/floating 10.245.0.5 rtos-n2 is missing", "pod/default/floating 10.245.0.5 rtos-n1 should not be there"},
		func(w *world) {
			for _, row := range w.Northbound[nbdb.LogicalRouterStaticRouteTable] {
				if route := row.(*nbdb.LogicalRouterStaticRoute); route.IPPrefix == "10.245.0.5/32" {
					route.OutputPort = pointerTo(names.RouterToSwitch("n1"))
				}
			}
		}},
	{"FloatingWhereHeld", "a translation that stayed behind", []string{"pod/default/a 192.0.2.8 GR_n1 should not be there"}, func(w *world) {
		w.FloatingIPs[0].Spec.Holder = nil
	}},
	{"FloatingWhereHeld", "an Underlay address that is not at the port",
		[]string{"Pod default/b", "Network blue", "10.244.0.99"}, func(w *world) {
			w.holds(&w.Pods[1], networkv1alpha1.LocationUnderlay, netip.MustParseAddr("10.244.0.99"))
			w.IPPools[len(w.IPPools)-1].Spec.Network = "blue"
		}},
	{"PodAddressInSubnet", "a pod that does not hold its address", []string{"default_floating", "10.245.0.5"}, func(w *world) {
		w.FloatingIPs[1].Spec.Holder = nil
		w.routeGone("10.245.0.5/32")
	}},
	{"OwnerLives", "ports of a pod that requests no network", []string{"podports/default/a"}, func(w *world) {
		w.Pods[0].Annotations = nil
	}},
	{"OwnerLives", "a Network that does not exist", []string{"podnetwork/gone"}, func(w *world) {
		w.put(&nbdb.AddressSet{UUID: "1", Name: "set", ExternalIDs: map[string]string{unit.OwnerKey: "podnetwork/gone"}})
	}},
	{"UniqueAddress", "of two ports of a Network", []string{"10.244.0.6", "blue_default_a_net1", "blue_default_b_net1"}, func(w *world) {
		w.networkPort("a").Addresses = []string{"0a:58:0a:f4:00:05 10.244.0.6"}
		w.networkPort("a").PortSecurity = w.networkPort("a").Addresses
	}},
	{"UniqueAddress", "of a foreign port on a Network's switch", []string{"10.244.0.5", "blue_default_a_net1", "foreign"}, func(w *world) {
		w.put(&nbdb.LogicalSwitchPort{UUID: "1", Name: "foreign", Addresses: []string{"02:00:00:00:00:01 10.244.0.5"}})
		s := w.nodeSwitch("net_blue")
		s.Ports = append(s.Ports, "1")
	}},
	{"SouthboundKeys", "of a port on a Network", []string{"blue_default_a_net1", "16", "99"}, func(w *world) {
		for _, row := range w.Southbound[sbdb.PortBindingTable] {
			if p := row.(*sbdb.PortBinding); p.LogicalPort == "blue_default_a_net1" {
				p.TunnelKey = 99
			}
		}
	}},
	{"PortSecurity", "off on a Network", []string{"blue_default_a_net1"}, func(w *world) { w.networkPort("a").PortSecurity = nil }},
	{"PortOnItsChassis", "a port on a Network", []string{"blue_default_a_net1", "elsewhere"}, func(w *world) {
		w.networkPort("a").Options["requested-chassis"] = "elsewhere"
	}},
	{"NetworkPortOfPod", "that of a pod before it", []string{"blue_default_a_net1", "uid-old", "Pod default/a"}, func(w *world) {
		w.networkPort("a").Options["iface-id-ver"] = "uid-old"
	}},
	{"NetworkPortOfPod", "on another Network's switch", []string{"blue_default_a_net1", "switch n1"}, func(w *world) {
		blue, id := w.nodeSwitch("net_blue"), w.networkPort("a").UUID
		blue.Ports = slices.DeleteFunc(blue.Ports, func(p string) bool { return p == id })
		w.nodeSwitch("n1").Ports = append(w.nodeSwitch("n1").Ports, id)
		w.networkPort("a").Options["requested-tnl-key"], w.networkPort("a").Addresses = "77", []string{"02:00:00:00:00:77 10.244.0.5"}
		w.networkPort("a").PortSecurity = w.networkPort("a").Addresses
		w.copySouthbound()
	}},
	{"OnePortPerInterface", "on two Networks", []string{"interface net1", "blue_default_a_net1", "red_default_a_net1"}, func(w *world) {
		w.addNetwork("red", "a")
		w.copySouthbound()
	}},
	{"AttachmentsAreCounted", "one too many", []string{"status.attachments of Network blue says 3, there are 2 ports"}, func(w *world) {
		w.Networks[0].Status.Attachments = 3
	}},
	{"CountsAreRight", "used addresses", []string{"4 are used", "10.244.0.0/16", "have 3"}, func(w *world) {
		w.ClusterNetwork.Status.Addresses[0].Used, w.ClusterNetwork.Status.Addresses[0].Free = 4, 96
	}},
	{"CountsAreRight", "free addresses", []string{"3 used and 90 free of 100"}, func(w *world) {
		w.ClusterNetwork.Status.Addresses[0].Free = 90
	}},
	{"CountsAreRight", "nodes", []string{"3 nodes", "there are 2"}, func(w *world) { w.ClusterNetwork.Status.Nodes.Total = 3 }},
}

func TestEachInvariantIsViolatedAlone(t *testing.T) {
	for _, test := range slices.Concat(violations, multiViolations) {
		t.Run(test.invariant+"/"+test.name, func(t *testing.T) {
			w := newWorld(t)
			test.breaks(w)
			found := invariant.Check(w.World)
			if len(found) == 0 {
				t.Fatal("nothing is violated")
			}
			var text strings.Builder
			for _, v := range found {
				if v.Invariant != test.invariant {
					t.Errorf("also violated: %s", v)
				}
				fmt.Fprintln(&text, v, v.Rows, v.Owners, v.Objects)
			}
			for _, word := range test.words {
				if !strings.Contains(text.String(), word) {
					t.Errorf("%q does not contain %q", text.String(), word)
				}
			}
		})
	}
}

func TestEveryInvariantHasAWorldThatViolatesIt(t *testing.T) {
	names := map[string]bool{}
	for _, i := range invariant.All() {
		if names[i.Name] || i.Doc == "" || !slices.ContainsFunc(violations, func(v violation) bool { return v.invariant == i.Name }) {
			t.Errorf("invariant %q is there twice, has no documentation or no test", i.Name)
		}
		names[i.Name] = true
	}
}

// docs/dev/topology.md has one line for each invariant, in order.
func TestDocumentationListsTheInvariants(t *testing.T) {
	document, err := os.ReadFile("../../docs/dev/topology.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, i := range invariant.All() {
		fmt.Fprintf(&want, "| `%s` | %s |\n", i.Name, i.Doc)
	}
	if !strings.Contains(string(document), want.String()) {
		t.Errorf("docs/dev/topology.md should have these lines:\n%s", want.String())
	}
}

// Pending objects, and objects of other programs, violate nothing.
func TestWhatIsNoViolation(t *testing.T) {
	for _, test := range []struct {
		name  string
		alter func(*world)
	}{
		{"a pod on a node without an agent", func(w *world) {
			w.stranger(func(*networkv1alpha1.NodeNetwork) {})
			w.Pods = append(w.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"},
				Spec: corev1.PodSpec{NodeName: "n3"}})
		}},
		{"ports of a node that came back and whose agent has not reported yet", func(w *world) {
			w.nodeNetwork("n1").Status.Chassis = ""
		}},
		{"routes of one unit to different next hops", func(w *world) {
			for _, hop := range []string{"100.64.0.2", "100.64.0.3"} {
				w.put(&nbdb.LogicalRouterStaticRoute{UUID: hop, IPPrefix: "10.9.0.0/16", Nexthop: hop, ExternalIDs: owned()})
				w.router().StaticRoutes = append(w.router().StaticRoutes, hop)
			}
		}},
		{"foreign rows among themselves", func(w *world) {
			for _, id := range []string{"1", "2"} {
				w.put(&nbdb.LogicalSwitch{UUID: id, Name: "foreign", Ports: []string{"port"}})
			}
			w.put(&nbdb.LogicalSwitchPort{UUID: "port", Name: "port", Addresses: []string{"02:00:00:00:00:01 10.244.0.5"}})
		}},
		{"rows of a kind of a newer version", func(w *world) {
			w.put(&nbdb.AddressSet{UUID: "1", Name: "set", ExternalIDs: map[string]string{unit.OwnerKey: "policy/default/deny"}})
		}},
		{"a pod with an Underlay address", func(w *world) {
			w.holds(&w.Pods[1], networkv1alpha1.LocationUnderlay, netip.MustParseAddr("10.244.0.6"))
			w.IPPools[len(w.IPPools)-1].Spec.Network = "blue"
		}},
		{"an Overlay address of a pool that was deleted", func(w *world) {
			w.FloatingIPs[1].Spec.Pool = "gone"
		}},
		{"the links of two gateway routers in Local mode", func(w *world) {
			for _, node := range []string{"n1", "n2"} {
				w.put(&nbdb.LogicalSwitchPort{UUID: "egress-" + node, Name: "egress-" + node, ExternalIDs: owned(),
					Addresses: []string{"0a:58:a9:fe:a9:09 169.254.169.9 fd69::9"}})
				w.put(&nbdb.LogicalSwitch{UUID: "ext_" + node, Name: "ext_" + node, Ports: []string{"egress-" + node}, ExternalIDs: owned()})
			}
		}},
		{"a pool that cannot be read any more, whose pods keep their addresses", func(w *world) {
			w.IPPools[0].Spec.Ranges = []networkv1alpha1.IPPoolRange{{Addresses: "192.0.2.300"}}
		}},
		{"rows of a node that is gone while there is no ClusterNetwork", func(w *world) {
			w.ClusterNetwork, w.Nodes = nil, w.Nodes[:1]
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.alter(w)
			for _, v := range invariant.Check(w.World) {
				t.Error(v)
			}
		})
	}
}

// A pod waits while its requested address is unavailable. Once it is available, the pod must have a port.
func TestPodThatRequestsAnAddress(t *testing.T) {
	for address, waits := range map[string]bool{"10.244.0.5": true, "10.244.0.1": true, "192.0.2.1": true,
		"none": true, "10.244.0.99": false} {
		w := newWorld(t)
		w.Pods = append(w.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "requests",
			Annotations: map[string]string{"network.weft.dev/requested-ips": address}}, Spec: corev1.PodSpec{NodeName: "n1"}})
		if found := invariant.Check(w.World); (len(found) == 0) != waits {
			t.Errorf("it requests %s and violated is %v", address, found)
		}
	}
}

// A pod waits until it holds all floating addresses that it requests, on its node. Then it must have a port.
func TestPodThatRequestsFloatingAddresses(t *testing.T) {
	const v4, v6 = "10.245.0.9", "fd00:10:245::9"
	for _, test := range []struct {
		name, pool, count, node string
		held                    []string
		waits                   bool
	}{
		{"none yet", "pool-requests", "1", "n1", nil, true},
		{"one family", "pool-requests", "1", "n1", []string{v4}, true},
		{"too few", "pool-requests", "2", "n1", []string{v4, v6}, true},
		{"on another node", "pool-requests", "1", "n2", []string{v4, v6}, true},
		{"no such pool", "gone", "1", "n1", nil, true},
		{"unreadable", "pool-requests", "none", "n1", []string{v4, v6}, true},
		{"all", "pool-requests", "1", "n1", []string{v4, v6}, false},
		{"of another pool", "gone", "1", "n1", []string{v4, v6}, false},
	} {
		w := newWorld(t)
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "requests", UID: "uid-requests",
			Annotations: map[string]string{networkv1alpha1.IPPoolAnnotation: test.pool, networkv1alpha1.IPCountAnnotation: test.count}},
			Spec: corev1.PodSpec{NodeName: "n1"}}
		holder := pod
		holder.Spec.NodeName = test.node
		var held []netip.Addr
		for _, text := range test.held {
			held = append(held, netip.MustParseAddr(text))
		}
		w.holds(&holder, networkv1alpha1.LocationOverlay, held...)
		ranges := []networkv1alpha1.IPPoolRange{{Addresses: "10.245.0.0/24"}, {Addresses: "fd00:10:245::/64"}}
		w.IPPools[len(w.IPPools)-1].Spec.Ranges = ranges
		w.Pods = append(w.Pods, pod)
		if found := invariant.Check(w.World); (len(found) == 0) != test.waits {
			t.Errorf("%s: violated is %v", test.name, found)
		}
	}
}

// A pod also waits while its requested MAC is unavailable or its requested limit is invalid.
func TestPodThatRequestsAMACOrALimit(t *testing.T) {
	for _, test := range []struct {
		annotation, value string
		waits             bool
	}{
		{"network.weft.dev/requested-mac", "0a:58:0a:f4:00:05", true}, // pod a's
		{"network.weft.dev/requested-mac", "53:54:00:12:34:56", true},
		{"network.weft.dev/requested-mac", "none", true},
		{"network.weft.dev/requested-mac", "52:54:00:12:34:56", false},
		{"kubernetes.io/ingress-bandwidth", "none", true},
		{"kubernetes.io/ingress-bandwidth", "1M", false},
	} {
		w := newWorld(t)
		w.Pods = append(w.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "requests",
			Annotations: map[string]string{test.annotation: test.value}}, Spec: corev1.PodSpec{NodeName: "n1"}})
		if found := invariant.Check(w.World); (len(found) == 0) != test.waits {
			t.Errorf("%s %s: violated is %v", test.annotation, test.value, found)
		}
	}
}

// A pod waits while its node has no free address. Once an address is free, the pod must have a port.
func TestPodWithoutPortOnAFullNode(t *testing.T) {
	w := newWorldOf(t, 29)
	subnet := netip.MustParsePrefix(string(w.nodeNetwork("n1").Spec.PodSubnets[0]))
	w.Pods = append(w.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"},
		Spec: corev1.PodSpec{NodeName: "n1"}})
	w.ClusterNetwork.Status.Addresses = nil
	used := int64(2)
	for n := 3; used < ipam.Capacity(subnet); n++ {
		if found := invariant.Check(w.World); len(found) != 1 || found[0].Invariant != "PodHasPort" {
			t.Fatalf("%d of %d addresses are used and violated is %v, want PodHasPort", used, ipam.Capacity(subnet), found)
		}
		if n == 5 || n == 6 {
			continue
		}
		w.addPod(fmt.Sprintf("more-%d", n), "n1", n)
		used++
	}
	for _, v := range invariant.Check(w.World) {
		t.Error(v)
	}
}

func TestOnlyWhatStaysIsPersistent(t *testing.T) {
	w := newWorld(t)
	w.port("a").PortSecurity = nil
	w.port("b").Options["requested-tnl-key"] = "0"
	before := invariant.Check(w.World)
	w.port("b").Options["requested-tnl-key"] = "22"
	w.port("c").PortSecurity = nil
	stayed := invariant.Persistent(before, invariant.Check(w.World))
	if len(stayed) != 1 || !strings.Contains(stayed[0].Message, "default_a") || stayed[0].Subject() != "pod/default/a" {
		t.Errorf("persistent are %v, want only that of default_a", stayed)
	}
}
