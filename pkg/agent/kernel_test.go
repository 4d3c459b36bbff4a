package agent_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/topology"
)

// The kernel's datapath forwards without Open vSwitch's daemons: connections that have flows go on while ovs-vswitchd and its
// database are down. The userspace datapath is a part of ovs-vswitchd.
func TestPacketsWithoutOpenVSwitch(t *testing.T) {
	n := readyNode(t)
	a, b := n.attached("a", 5), n.attached("b", 6)
	for _, address := range b.addresses() {
		at := n.startEcho(b.netNS, address)
		conn := n.dial(a.netNS, at)
		n.until("packets", func() error { return conn.exchange(1000) })
		n.ovs.KillSwitch()
		n.ovs.Kill()
		err := conn.exchange(1000)
		if ovndbtest.OnKernel(t) && err != nil {
			t.Errorf("%s while Open vSwitch is down: %v", address, err)
		}
		if !ovndbtest.OnKernel(t) && err == nil {
			t.Errorf("%s while Open vSwitch is down: the userspace datapath forwards", address)
		}
		n.ovs.Run()
		n.ovs.RunSwitch()
		n.until("packets after the restart", func() error { return n.dial(a.netNS, at).exchange(1000) })
	}
}

// Pods of two nodes reach each other through Geneve, in both families: by datagrams, by datagrams in fragments, and by a stream.
func TestPacketsBetweenNodes(t *testing.T) {
	if !ovndbtest.OnKernel(t) {
		t.Skip("the kernel has no Open vSwitch; end-to-end tests show this on the userspace datapath")
	}
	n := readyNode(t)
	a := n.attached("a", 5)
	b := n.newSecondNode().addPod("b", 7)
	for _, address := range b.addresses {
		at := n.startEcho(b.netNS, address)
		conn := n.dial(a.netNS, at)
		n.until("packets between nodes", func() error { return conn.exchange(1000) })
		if err := conn.exchange(20000); err != nil {
			t.Errorf("%s, in fragments: %v", address, err)
		}
		if err := stream(a.netNS, b.netNS, netip.AddrPortFrom(address, 8080)); err != nil {
			t.Errorf("%s, a stream: %v", address, err)
		}
	}
}

// attached adds a pod.
func (n *node) attached(name string, slot int) pod {
	n.Helper()
	p := n.newPod(name, slot)
	n.givePort(p)
	n.add(p)
	return p
}

// secondNode is a network namespace with its own Open vSwitch and ovn-controller, without an agent.
type secondNode struct {
	*node
	netNS string
	ovs   *ovndbtest.Switch
}

const secondNodeName, secondEncapIP = "node2", "172.18.0.12"

// newSecondNode connects a second node with the first one's br-ex.
func (n *node) newSecondNode() *secondNode {
	n.Helper()
	o := &secondNode{node: n, netNS: n.newNetNS(secondNodeName)}
	n.must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "wire"}, PeerName: "uplink"}))
	n.must(moveLink("uplink", o.netNS, 1500, secondEncapIP+"/24"))
	wire, err := netlink.LinkByName("wire")
	n.must(err)
	n.must(netlink.LinkSetUp(wire))
	n.ovs.Ctl("add-port", "br-ex", "wire")
	n.must(inNetNS(o.netNS, func() error {
		o.ovs = ovndbtest.StartSwitch(n.T)
		o.ovs.Ctl("set", "Open_vSwitch", ".", "external_ids:system-id="+secondNodeName, "external_ids:ovn-encap-type=geneve",
			"external_ids:ovn-encap-ip="+secondEncapIP, "external_ids:ovn-remote="+n.central.SB.Endpoint(),
			"external_ids:ovn-bridge-datapath-type=system")
		o.ovs.RunController()
		return nil
	}))
	read, err := facts.ParseNodeNetwork(&networkv1alpha1.NodeNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: secondNodeName},
		Spec: networkv1alpha1.NodeNetworkSpec{
			NodeID:     2,
			PodSubnets: []networkv1alpha1.CIDR{"10.244.2.0/24", "fd00:10:244:2::/64"},
			Gateways:   []networkv1alpha1.IP{"10.244.2.1", "fd00:10:244:2::1"},
			ManagementPort: networkv1alpha1.ManagementPort{
				MACAddress: "0a:58:0a:f4:02:02",
				Addresses:  []networkv1alpha1.InterfaceAddress{"10.244.2.2/24", "fd00:10:244:2::2/64"},
			},
			ClusterSubnets: spec().ClusterSubnets, ServiceSubnets: spec().ServiceSubnets,
		},
	})
	n.must(err)
	n.apply(topology.NodeUnit(read))
	return o
}

// moveLink moves a link of this namespace into another one, and configures it there.
func moveLink(name, netNS string, mtu int, addresses ...string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	target, err := unix.Open(netNS, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	if err := netlink.LinkSetNsFd(link, target); err != nil {
		return err
	}
	return inNetNS(netNS, func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		errs := []error{netlink.LinkSetMTU(link, mtu), netlink.LinkSetUp(link)}
		for _, address := range addresses {
			a := &netlink.Addr{IPNet: mustIPNet(address), Flags: unix.IFA_F_NODAD}
			errs = append(errs, netlink.AddrReplace(link, a))
		}
		return errors.Join(errs...)
	})
}

// secondPod is a pod of the other node.
type secondPod struct {
	netNS     string
	addresses []netip.Addr
}

// addPod connects a pod with br-int, as the agent does.
func (o *secondNode) addPod(name string, slot int) secondPod {
	o.Helper()
	p := secondPod{netNS: o.newNetNS("sandbox-" + name), addresses: []netip.Addr{
		netip.MustParseAddr(fmt.Sprintf("10.244.2.%d", slot)), netip.MustParseAddr(fmt.Sprintf("fd00:10:244:2::%x", slot)),
	}}
	mac := net.HardwareAddr{0x0a, 0x58, 10, 244, 2, byte(slot)}
	o.apply(topology.PodUnit(topology.Pod{
		Namespace: "demo", Name: name, UID: "uid-" + name, Node: secondNodeName, Chassis: secondNodeName,
		Addresses: p.addresses, MAC: mac, Slot: slot,
	}))
	o.must(inNetNS(o.netNS, func() error {
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "host"}, PeerName: "eth0", PeerHardwareAddr: mac}
		if err := netlink.LinkAdd(pair); err != nil {
			return err
		}
		const mtu = 1500 - 58 // Geneve
		if err := moveLink("eth0", p.netNS, mtu, p.addresses[0].String()+"/24", p.addresses[1].String()+"/64"); err != nil {
			return err
		}
		return netlink.LinkSetUp(pair)
	}))
	o.must(inNetNS(p.netNS, func() error {
		for _, gateway := range []string{"10.244.2.1", "fd00:10:244:2::1"} {
			if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gateway)}); err != nil {
				return err
			}
		}
		return nil
	}))
	o.ovs.Ctl("--may-exist", "add-br", names.IntegrationBridge, "--", "add-port", names.IntegrationBridge, "host",
		"--", "set", "Interface", "host", "external_ids:iface-id="+names.PodPort(names.DefaultNetwork, "demo", name),
		"external_ids:iface-id-ver=uid-"+name)
	return p
}

// startEcho returns datagrams to their senders from a namespace.
func (n *node) startEcho(netNS string, address netip.Addr) netip.AddrPort {
	n.Helper()
	at := netip.AddrPortFrom(address, 7000)
	var conn *net.UDPConn
	n.must(inNetNS(netNS, func() (err error) {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	}))
	n.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			size, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDPAddrPort(buffer[:size], from)
		}
	}()
	return at
}

// echoed is a client of startEcho.
type echoed struct {
	*net.UDPConn
	exchanges byte // the content of datagrams, so that a late answer does not count
}

func (n *node) dial(netNS string, at netip.AddrPort) *echoed {
	n.Helper()
	e := &echoed{}
	n.must(inNetNS(netNS, func() (err error) {
		e.UDPConn, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
		return err
	}))
	n.Cleanup(func() { e.Close() })
	return e
}

// exchange sends a datagram and reads it back. It tries for 5 seconds, because a datagram may be lost.
func (e *echoed) exchange(size int) error {
	e.exchanges++
	sent, got := bytes.Repeat([]byte{e.exchanges}, size), make([]byte, 1<<16)
	var err error
	for range 5 {
		if _, err = e.Write(sent); err != nil {
			continue // an ICMP error about an earlier one
		}
		if err = e.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		var n int
		if n, err = e.Read(got); err == nil && bytes.Equal(got[:n], sent) {
			return nil
		}
	}
	return fmt.Errorf("no answer to a datagram of %d bytes: %w", size, err)
}

// stream sends 4 MB by TCP and compares what arrives.
func stream(from, to string, at netip.AddrPort) error {
	var listener net.Listener
	err := inNetNS(to, func() (err error) {
		listener, err = net.Listen("tcp", at.String())
		return err
	})
	if err != nil {
		return err
	}
	defer listener.Close()
	data := bytes.Repeat([]byte("weft"), 1<<20)
	received := make(chan []byte, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			received <- nil
			return
		}
		defer conn.Close()
		all, _ := io.ReadAll(conn)
		received <- all
	}()
	var conn net.Conn
	err = inNetNS(from, func() (err error) {
		conn, err = net.DialTimeout("tcp", at.String(), patience)
		return err
	})
	if err != nil {
		return err
	}
	_, err = conn.Write(data)
	if err := errors.Join(err, conn.SetDeadline(time.Now().Add(patience)), conn.Close()); err != nil {
		return err
	}
	if all := <-received; !bytes.Equal(all, data) {
		return fmt.Errorf("%d bytes arrive, want %d", len(all), len(data))
	}
	return nil
}
