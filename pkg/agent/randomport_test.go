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
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// exposed is a pod of the API server that requests random host ports.
type exposed struct {
	pod
	*node
}

// newExposed creates a pod with the ports TCP 80, UDP 80 and SCTP 80, and its port on the cluster network.
func (n *node) newExposed(name string, slot int, annotations map[string]string) *exposed {
	n.Helper()
	n.must(ignoreExists(api.Create(n.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})))
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Annotations: annotations},
		Spec: corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{Name: "c", Image: "none",
			Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}, {ContainerPort: 80, Protocol: "UDP"},
				{ContainerPort: 80, Protocol: "SCTP"}}}}}}
	n.must(api.Create(n.Context(), object))
	n.Cleanup(func() { n.must(client.IgnoreNotFound(api.Delete(cleanup(), object, client.GracePeriodSeconds(0)))) })
	e := &exposed{pod: n.newPod(name, slot), node: n}
	e.uid = string(object.UID)
	e.operate()
	return e
}

// object reads the pod from the API server.
func (e *exposed) object() *corev1.Pod {
	e.Helper()
	var object corev1.Pod
	e.must(api.Get(e.Context(), types.NamespacedName{Namespace: "demo", Name: e.name}, &object))
	return &object
}

// operate writes the pod's port as the operator does for its present annotations.
func (e *exposed) operate() {
	e.Helper()
	object := e.object()
	want := topology.Pod{Namespace: "demo", Name: e.name, UID: e.uid, Node: nodeName, Chassis: e.status().Chassis,
		Addresses: e.addresses(), MAC: e.mac(), Slot: e.slot}
	var err error
	want.HostPorts, _ = facts.HostPorts(object)
	want.RandomHostPorts, err = facts.RandomHostPorts(object)
	e.must(err)
	e.apply(topology.PodUnit(want))
}

// given returns the host ports that the pod's annotation has: "TCP 20001 80; UDP 20000 80".
func (e *exposed) given() string {
	e.Helper()
	ports, err := networkv1alpha1.ParseHostPorts(e.object().Annotations[networkv1alpha1.HostPortsAnnotation])
	e.must(err)
	var texts []string
	for _, p := range ports {
		texts = append(texts, fmt.Sprintf("%s %d %d", p.Protocol, p.HostPort, p.ContainerPort))
	}
	return strings.Join(texts, "; ")
}

// addMapped sends an ADD, and maps the ports that the agent chooses.
func (e *exposed) addMapped(before string) {
	e.Helper()
	answers, _ := e.startAdd(e.pod)
	e.until("the host ports of "+e.name, func() error { return isTrue(e.given() != before, e.given()) })
	notYet(e.T, answers) // the operator has not mapped the ports
	e.operate()
	if a := <-answers; a.err != nil {
		e.Fatalf("ADD of %s: %v", e.name, a.err)
	}
}

// setHostPortRange sets spec.hostPorts, as the operator does, and waits until the agent has read it.
func (n *node) setHostPortRange(ports networkv1alpha1.PortRange) {
	n.Helper()
	nn := &networkv1alpha1.NodeNetwork{}
	n.must(api.Get(n.Context(), types.NamespacedName{Name: nodeName}, nn))
	nn.Spec.HostPorts.Range = ports
	n.must(api.Update(n.Context(), nn))
	n.until("the range", func() error { return isTrue(n.status().ObservedGeneration == nn.Generation, "not observed") })
}

// isBound returns nil if a process has a port of the node: "tcp4", 20001.
func isBound(network string, port int) error {
	at := fmt.Sprintf(":%d", port)
	var err error
	if strings.HasPrefix(network, "tcp") {
		var l net.Listener
		if l, err = net.Listen(network, at); err == nil {
			return errors.Join(fmt.Errorf("%s port %d is free", network, port), l.Close())
		}
	} else {
		var l net.PacketConn
		if l, err = net.ListenPacket(network, at); err == nil {
			return errors.Join(fmt.Errorf("%s port %d is free", network, port), l.Close())
		}
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return nil
	}
	return err
}

// wantBound waits until the agent has the ports of the first pod, or no longer has them.
func (n *node) wantBound(want bool) {
	n.Helper()
	for network, port := range map[string]int{"tcp4": 20001, "tcp6": 20001, "udp4": 20000, "udp6": 20000} {
		n.until(fmt.Sprintf("%s port %d bound: %t", network, port, want), func() error {
			err := isBound(network, port)
			return isTrue((err == nil) == want, fmt.Sprint(err))
		})
	}
}

// A pod gets ports that neither a process of the node nor another pod has, keeps them over restarts and sandboxes, and
// gives them back.
func TestRandomHostPortsLastAsLongAsThePod(t *testing.T) {
	n := readyNode(t)
	n.setGateway(sharedGateway)
	n.setHostPortRange("20000-20001")
	listener, err := net.Listen("tcp", "127.0.0.1:20000")
	n.must(err)
	defer listener.Close()
	datagrams, err := net.ListenPacket("udp6", "[::]:20001")
	n.must(err)
	defer datagrams.Close()

	asked := map[string]string{networkv1alpha1.RandomHostPortsAnnotation: `["80/TCP", "80/UDP"]`}
	web := n.newExposed("exposed", 5, asked)
	const ports = "TCP 20001 80; UDP 20000 80"
	web.addMapped("")
	if got := web.given(); got != ports {
		t.Fatalf("host ports %q, want %q", got, ports)
	}
	n.wantBound(true)
	n.awaitHostPort(web.pod, 20001, true)

	t.Run("no port is left", func(t *testing.T) {
		late := n.newExposed("late", 6, asked)
		answers, _ := n.startAdd(late.pod)
		if a := <-answers; a.err == nil || !strings.Contains(a.err.Error(), "container port TCP/80: no TCP port of 20000-20001 is free") {
			t.Errorf("ADD: %v", a.err)
		}
		if got := late.given(); got != "" {
			t.Errorf("host ports %q", got)
		}
		n.awaitPods(web.pod)
	})
	written := web.object().ResourceVersion
	t.Run("a restart", func(t *testing.T) {
		n.stopAgent()
		n.wantBound(false)
		n.startAgent()
		n.until("STATUS", n.ready)
		n.wantBound(true)
	})
	t.Run("another sandbox", func(t *testing.T) {
		again := web.pod
		again.container, again.netNS = "sandbox-again", n.newNetNS("sandbox-again")
		n.add(again)
		n.del(web.pod)
		n.awaitPods(again)
		n.wantBound(true)
		web.pod = again
	})
	if got := web.object().ResourceVersion; web.given() != ports || got != written {
		t.Errorf("host ports %q and version %s, want %q and %s", web.given(), got, ports, written)
	}
	t.Run("a port that became free", func(t *testing.T) {
		n.must(errors.Join(listener.Close(), datagrams.Close()))
		next := n.newExposed("next", 7, asked)
		next.addMapped("")
		if got, want := next.given(), "TCP 20000 80; UDP 20001 80"; got != want {
			t.Errorf("host ports %q, want %q", got, want)
		}
		n.del(next.pod)
	})
	n.del(web.pod)
	n.wantBound(false)
	t.Run("a pod that is gone", func(t *testing.T) {
		n.apply(unit.Unit{Key: topology.PodKey("demo", web.name)})
		n.apply(unit.Unit{Key: topology.PodKey("demo", "next")})
		last := n.newExposed("last", 8, map[string]string{networkv1alpha1.GalaxyPortMappingAnnotation: ""})
		last.addMapped("")
		if got := strings.Fields(last.given()); len(got) != 9 {
			t.Errorf("host ports %q", got)
		}
		galaxy := last.object().Annotations[networkv1alpha1.GalaxyPortMappingAnnotation]
		if want := `,"containerPort":80,"protocol":"TCP","podName":"last","podIP":"10.244.1.8"}`; !strings.Contains(galaxy, want) {
			t.Errorf("Galaxy's annotation is %s, want an element %s", galaxy, want)
		}
	})
}

// A port that the operator does not map is not chosen again, nor one that another pod's binding has.
func TestRandomHostPortsThatAreRefused(t *testing.T) {
	n := readyNode(t)
	n.setGateway(sharedGateway)
	n.setHostPortRange("20000-20002")
	n.giveHostPort(n.newPod("named", 5), 20000) // it has no interface yet
	web := n.newExposed("refused", 6, map[string]string{networkv1alpha1.RandomHostPortsAnnotation: `["80/TCP"]`})
	answers, cancel := n.startAdd(web.pod)
	n.until("the first choice", func() error { return isTrue(web.given() != "", "none") })
	notYet(t, answers)
	first := web.given()
	cancel()
	<-answers
	n.awaitPods()
	web.addMapped(first)
	second := web.given()
	if first == second || strings.Contains(first+second, "20000") {
		t.Errorf("the choices are %q and %q", first, second)
	}
	n.awaitPods(web.pod)
}

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
	nn := &networkv1alpha1.NodeNetwork{}
	n.must(api.Get(n.Context(), types.NamespacedName{Name: nodeName}, nn))
	nn.Spec.Gateway = sharedGateway
	nn.Spec.JoinAddresses = []networkv1alpha1.InterfaceAddress{"100.64.0.2/16", "fd98::2/64"}
	n.must(api.Update(n.Context(), nn))
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

// ask returns what answers at a port of the node, from a namespace.
func ask(netNS, network string, at netip.AddrPort) (answer string, err error) {
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
					answer, err := ask(outside, network, at)
					if err == nil && answer != e.name {
						t.Fatalf("%s %s is answered by %q, not by %q", network, at, answer, e.name)
					}
					return err
				})
			}
		}
	}
}
