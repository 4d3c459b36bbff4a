package kindtest

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// Node returns a node with an ID, and its NodeNetwork as the operator and the agent write it. families are some of "4" and "6". The node
// n1 with the ID 1 has
//
//	the pods' subnets     10.244.1.0/24, fd01:0:0:1::/64
//	the chassis           chassis-n1
//	the link's addresses  192.0.2.1/24, 2001:db8::1/64, which are its InternalIPs too
//	the next hops         192.0.2.254, 2001:db8::fffe
func Node(t *testing.T, id int, families string) (*corev1.Node, *networkv1alpha1.NodeNetwork) {
	t.Helper()
	plan, err := facts.ParseClusterNetwork(ClusterNetwork(families))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("n%d", id)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-n1"}}
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	have := networkv1alpha1.NodeNetworkSpec{NodeID: int32(id)}
	link := &networkv1alpha1.NodeGatewayStatus{Mode: networkv1alpha1.GatewayShared, Bridge: "br-ex",
		MACAddress: networkv1alpha1.MACAddress(fmt.Sprintf("02:00:00:00:00:%02x", id))}
	if strings.Contains(families, "4") {
		have.PodSubnets = append(have.PodSubnets, networkv1alpha1.CIDR(fmt.Sprintf("10.244.%d.0/24", id)))
		link.Addresses = append(link.Addresses, networkv1alpha1.InterfaceAddress(fmt.Sprintf("192.0.2.%d/24", id)))
		link.NextHops = append(link.NextHops, "192.0.2.254")
	}
	if strings.Contains(families, "6") {
		have.PodSubnets = append(have.PodSubnets, networkv1alpha1.CIDR(fmt.Sprintf("fd01:0:0:%d::/64", id)))
		link.Addresses = append(link.Addresses, networkv1alpha1.InterfaceAddress(fmt.Sprintf("2001:db8::%d/64", id)))
		link.NextHops = append(link.NextHops, "2001:db8::fffe")
	}
	if nn.Spec, err = facts.NodeSpec(have, plan, nil, facts.Settings{MTU: 1400}); err != nil {
		t.Fatal(err)
	}
	nn.Status.Chassis, nn.Status.Gateway = "chassis-"+name, link
	for _, text := range link.Addresses {
		address, _, _ := strings.Cut(string(text), "/")
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return node, nn
}

// ClusterNetwork returns the ClusterNetwork that NodeNetworks of Node are made from. Its networks are in force.
func ClusterNetwork(families string) *networkv1alpha1.ClusterNetwork {
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
	add := func(pods networkv1alpha1.CIDR, hostPrefix int32, services, join networkv1alpha1.CIDR) {
		cn.Spec.ClusterNetwork = append(cn.Spec.ClusterNetwork, networkv1alpha1.ClusterNetworkEntry{CIDR: pods, HostPrefix: hostPrefix})
		cn.Spec.ServiceNetwork = append(cn.Spec.ServiceNetwork, services)
		cn.Spec.JoinSubnet = append(cn.Spec.JoinSubnet, join)
		for _, cidr := range []networkv1alpha1.CIDR{pods, services, join} {
			state := networkv1alpha1.NetworkStatus{CIDR: cidr, State: networkv1alpha1.NetworkInForce}
			cn.Status.Networks = append(cn.Status.Networks, state)
		}
	}
	if strings.Contains(families, "4") {
		add("10.244.0.0/16", 24, "10.96.0.0/16", "100.64.0.0/16")
	}
	if strings.Contains(families, "6") {
		add("fd01::/48", 64, "fd02::/112", "fd98::/64")
	}
	cn.Status.MTU = 1400
	return cn
}

// TunnelEnd returns an address to which other nodes tunnel, another one for each node.
func TunnelEnd(node string) networkv1alpha1.IP {
	sum := sha256.Sum256([]byte(node))
	return networkv1alpha1.IP(netip.AddrFrom4([4]byte{198, 18, sum[0], sum[1]}).String())
}
