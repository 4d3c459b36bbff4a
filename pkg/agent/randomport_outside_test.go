package agent_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
)

// outsideOf gives the node's bridge a link to a router outside, and returns the router's namespace. Both families work.
func (n *node) outsideOf() string {
	n.Helper()
	outside := n.newNetNS("outside")
	handle, err := ns.GetNS(outside)
	n.must(err)
	defer handle.Close()
	n.must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "nic0", MTU: 1500}, PeerName: "wire0",
		PeerNamespace: netlink.NsFd(int(handle.Fd()))}))
	n.must(configure("nic0"))
	n.must(handle.Do(func(ns.NetNS) error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		return errors.Join(tool.Change("wire0", map[string]bool{"tx-checksum-ip-generic": false}),
			configure("wire0", nextHop+"/24", "fd00:172:18::1/64"))
	}))
	n.ovs.Ctl("add-port", "br-ex", "nic0")
	n.must(configure("br-ex", "fd00:172:18::11/64"))
	n.giveDefaultRoute()
	bridge, err := netlink.LinkByName("br-ex")
	n.must(err)
	n.must(netlink.RouteReplace(&netlink.Route{LinkIndex: bridge.Attrs().Index, Gw: net.ParseIP("fd00:172:18::1")}))
	return outside
}

// buildGateway writes the rows of the node's gateway as the operator does, and waits until it is ready.
func (n *node) buildGateway() {
	n.Helper()
	var node corev1.Node
	n.must(api.Get(n.Context(), types.NamespacedName{Name: nodeName}, &node))
	node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00:172:18::11"})
	n.must(api.Status().Update(n.Context(), &node))
	nn := n.edit(func(spec *networkv1alpha1.NodeNetworkSpec) {
		spec.Gateway = sharedGateway
		spec.JoinAddresses = []networkv1alpha1.InterfaceAddress{"100.64.0.2/16", "fd98::2/64"}
	})
	n.until("the link outside", func() error {
		s := n.status()
		return isTrue(s.Gateway != nil && len(s.Gateway.Addresses) == 2 && len(s.Gateway.NextHops) == 2, fmt.Sprintf("%+v", s.Gateway))
	})
	nn.Status = *n.status()
	read, err := facts.ParseNodeNetwork(nn)
	n.must(err)
	n.apply(topology.NodeUnit(read))
	gateway, err := facts.ParseGateway(nn, &node)
	n.must(err)
	n.apply(topology.GatewayUnit(gateway))
	n.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
}

// echo answers each word at the pod's port 80, over TCP and UDP, until the test ends.
func (n *node) echo(p pod) {
	n.Helper()
	var listener net.Listener
	var packets net.PacketConn
	n.must(inNetNS(p.netNS, func() (err error) {
		if listener, err = net.Listen("tcp", ":80"); err == nil {
			packets, err = net.ListenPacket("udp", ":80")
		}
		return err
	}))
	n.Cleanup(func() { listener.Close(); packets.Close() })
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			_, _ = conn.Write([]byte(p.name))
			conn.Close()
		}
	}()
	go func() {
		word := make([]byte, 64)
		for {
			_, from, err := packets.ReadFrom(word)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo([]byte(p.name), from)
		}
	}()
}

// exchangeWord returns what answers at a port of the node, from a namespace.
func exchangeWord(netNS, network string, at netip.AddrPort) (answer string, err error) {
	err = inNetNS(netNS, func() error {
		conn, err := net.DialTimeout(network, at.String(), time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		if _, err := conn.Write([]byte("weft")); err != nil {
			return err
		}
		word := make([]byte, 64)
		n, err := conn.Read(word)
		answer = string(word[:n])
		return err
	})
	return answer, err
}

// Packets from outside to a pod's random host port reach this pod, in both families, and no pod after it is gone.
func TestRandomHostPortsFromOutside(t *testing.T) {
	n := readyNode(t)
	outside := n.outsideOf()
	n.buildGateway()
	n.setHostPortRange("20000-20003")
	asked := map[string]string{networkv1alpha1.RandomHostPortsAnnotation: `["80/TCP", "80/UDP"]`}
	var pods []*exposed
	for i, name := range []string{"first", "second"} {
		e := n.newExposed(name, 5+i, asked)
		e.addMapped("")
		n.echo(e.pod)
		pods = append(pods, e)
	}
	for _, e := range pods {
		ports, err := networkv1alpha1.ParseHostPorts(e.object().Annotations[networkv1alpha1.HostPortsAnnotation])
		n.must(err)
		if len(ports) != 2 {
			t.Fatalf("host ports %+v", ports)
		}
		for _, port := range ports {
			for _, address := range []string{encapIP, "fd00:172:18::11"} {
				at, network := netip.AddrPortFrom(netip.MustParseAddr(address), port.HostPort), strings.ToLower(string(port.Protocol))
				n.until(fmt.Sprintf("%s %s", network, at), func() error {
					answer, err := exchangeWord(outside, network, at)
					if err == nil && answer != e.name {
						t.Fatalf("%s %s is answered by %q, not by %q", network, at, answer, e.name)
					}
					return err
				})
			}
		}
	}
}
