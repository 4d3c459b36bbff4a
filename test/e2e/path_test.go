//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
)

// echoPort is the port of the peer that sends back what comes.
const echoPort = 7000

// echoPorts lead to what sends back what comes, over both protocols.
func echoPorts() []corev1.ServicePort {
	var ports []corev1.ServicePort
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
		ports = append(ports, corev1.ServicePort{Name: "echo-" + strings.ToLower(string(protocol)), Port: echoPort, Protocol: protocol, TargetPort: intstr.FromInt32(echoPort)})
	}
	return ports
}

// way is from somewhere to somewhere else that echoes.
type way struct {
	name     string
	from     caller
	to       []netip.Addr
	udp, tcp uint16 // ports
	mtu      int    // of a link on the way, where that is less than those of both ends; 0: it is not
	balanced bool   // by a service
}

// testLargePackets: what is larger than a link on the way passes as it does through plain routers: datagrams in fragments, and streams in
// segments of a size that the sender was told.
func testLargePackets(t *testing.T, o outside, mode networkv1alpha1.GatewayMode) {
	nn := nodeNetwork("n1")
	must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(nn), nn))
	for _, w := range o.ways() {
		for _, a := range w.to {
			t.Run(fmt.Sprint(w.name, " at ", a), func(t *testing.T) {
				const datagram, stream = 9000, 1 << 20 // bytes
				udp := netip.AddrPortFrom(a, w.udp)
				if w.mtu > 0 {
					eventually(t, recoveryTimeout, func() error { return w.from.isTold(t, udp, w.mtu) })
				}
				eventually(t, recoveryTimeout, func() error { return w.from.sendsStream(t, netip.AddrPortFrom(a, w.tcp), stream) })
				if why := w.noFragments(a, mode, nn.Status.DatapathType); why != "" {
					t.Log("no datagram in fragments:", why)
					return
				}
				eventually(t, recoveryTimeout, func() error { return w.from.sendsDatagram(t, udp, datagram, "--fragments") })
			})
		}
	}
}

// noFragments says why datagrams in fragments are not sent. The reasons are Open vSwitch's own tracker of connections (3.5, not the kernel's).
func (w way) noFragments(to netip.Addr, mode networkv1alpha1.GatewayMode, datapath networkv1alpha1.DatapathType) string {
	switch {
	case datapath != networkv1alpha1.DatapathNetdev:
		return ""
	case w.balanced:
		// It passes fragments on one by one, and OVN's balancers look for the port in each.
		return "the userspace datapath does not put them together for OVN's balancers"
	case mode == networkv1alpha1.GatewayShared && w.mtu > 0 && to.Is6():
		// When it translates the address of an ICMPv6 message about a datagram, it takes the message for a datagram, and "corrects" the checksum
		// that it does not have: that is where the message has the MTU.
		return "the userspace datapath spoils the MTU that a pod is told over IPv6"
	}
	return ""
}

func (o outside) ways() []way {
	var ways []way
	for _, n := range o.nodes {
		from := bed.podCaller(o.pods[n.Name])
		s := o.all["Cluster"]
		ways = append(ways,
			way{name: "pod of " + n.Name + " to outside", from: from, to: ofMachine(lab.Outside()).Addresses, udp: echoPort, tcp: echoPort},
			way{name: "pod of " + n.Name + " to a narrow link", from: from, to: ofMachine(lab.Far()).Addresses, udp: echoPort, tcp: echoPort, mtu: lab.Far().MTU},
			way{name: "outside to the node port of " + n.Name, from: bed.hostCaller(lab.Outside().Name), to: ofMachine(o.column.at(n)).Addresses,
				udp: echoNodePort(s, corev1.ProtocolUDP), tcp: echoNodePort(s, corev1.ProtocolTCP), mtu: o.podMTU, balanced: true})
	}
	return ways
}

func echoNodePort(s *corev1.Service, protocol corev1.Protocol) uint16 {
	for _, p := range s.Spec.Ports {
		if p.Port == echoPort && p.Protocol == protocol {
			return uint16(p.NodePort)
		}
	}
	return 0
}

// outcome is what peer datagram prints.
type outcome struct {
	TooLong, Echoed bool
	Error           string
}

func (c caller) datagram(t *testing.T, to netip.AddrPort, size int, more ...string) (outcome, error) {
	return tell[outcome](t.Context(), c, append([]string{"datagram", "--to=" + to.String(), "--size=" + strconv.Itoa(size)}, more...)...)
}

func (c caller) sendsDatagram(t *testing.T, to netip.AddrPort, size int, more ...string) error {
	o, err := c.datagram(t, to, size, more...)
	if err == nil && !o.Echoed {
		err = fmt.Errorf("datagram of %d bytes from %s to %s: %+v", size, c.name, to, o)
	}
	return err
}

// isTold is nil when a packet of the MTU passes, and the sender of a larger one that nobody may cut is told that it is too large.
func (c caller) isTold(t *testing.T, to netip.AddrPort, mtu int) error {
	if err := c.sendsDatagram(t, to, mtu); err != nil {
		return err
	}
	o, err := c.datagram(t, to, mtu+1)
	if err == nil && !o.TooLong {
		err = fmt.Errorf("datagram of %d bytes from %s to %s: %+v, want it refused", mtu+1, c.name, to, o)
	}
	return err
}

func (c caller) sendsStream(t *testing.T, to netip.AddrPort, size int64) error {
	o, err := tell[struct {
		Echoed int64
		Error  string
	}](t.Context(), c, "bulk", "--to="+to.String(), fmt.Sprint("--bytes=", size))
	if err == nil && (o.Error != "" || o.Echoed != size) {
		err = fmt.Errorf("stream from %s to %s: %+v", c.name, to, o)
	}
	return err
}

// hop is what peer trace prints of one limit.
type hop struct {
	Limit   int
	From    netip.Addr
	Type    uint8
	Code    uint8
	Reached bool
}

// testRouters: routers on the way tell a pod when a packet's time is over, that a port is closed, and that there is no way.
func testRouters(t *testing.T, o outside, mode networkv1alpha1.GatewayMode) {
	nowhere := addressList("198.18.0.1", "2001:db8:ffff::1") // the lab's router has no route to them
	for _, n := range o.nodes {
		from := bed.podCaller(o.pods[n.Name])
		for i, to := range ofMachine(lab.Outside()).Addresses {
			router := ofMachine(o.column.at(lab.Router())).Addresses[i]
			way := bed.routersOf(t, n.Name, to.Is4(), mode, router)
			t.Run(fmt.Sprint("pod of ", n.Name, " to ", to), func(t *testing.T) {
				eventually(t, recoveryTimeout, func() error { return from.passes(t, netip.AddrPortFrom(to, echoPort), way) })
				eventually(t, recoveryTimeout, func() error { return from.refused(t, netip.AddrPortFrom(to, 9)) })
				eventually(t, recoveryTimeout, func() error { return from.unreachable(t, netip.AddrPortFrom(nowhere[i], 9), router) })
			})
		}
	}
}

// routersOf are the routers between a pod and the host outside: the cluster's, the node's gateway, the lab's. The node's gateway is OVN's router,
// or the node itself, by its management port. OVN's routers answer over IPv6 to hosts of their own links alone, and a gateway router has no pods
// on its own: it is the zero address then.
func (b *testbed) routersOf(t *testing.T, node string, v4 bool, mode networkv1alpha1.GatewayMode, last netip.Addr) []netip.Addr {
	t.Helper()
	nn := nodeNetwork(node)
	must(t, b.api.Get(t.Context(), client.ObjectKeyFromObject(nn), nn))
	var cluster, gateway netip.Addr
	for _, text := range nn.Spec.Gateways {
		if a, err := text.Addr(); err == nil && a.Is4() == v4 {
			cluster = a
		}
	}
	own := nn.Spec.JoinAddresses
	if mode == networkv1alpha1.GatewayLocal {
		own = nn.Spec.ManagementPort.Addresses
	}
	for _, a := range interfaceAddresses(t, own) {
		if a.Is4() == v4 && (v4 || mode == networkv1alpha1.GatewayLocal) {
			gateway = a
		}
	}
	return []netip.Addr{cluster, gateway, last}
}

// passes is nil when every router on the way has told of itself, and the destination answers behind them.
func (c caller) passes(t *testing.T, to netip.AddrPort, routers []netip.Addr) error {
	hops, err := tell[[]hop](t.Context(), c, "trace", "--to="+to.String())
	if err != nil {
		return err
	}
	var have []netip.Addr
	for _, h := range hops {
		if !h.Reached {
			have = append(have, h.From)
		}
	}
	if !slices.Equal(have, routers) || !hops[len(hops)-1].Reached {
		return fmt.Errorf("way from %s to %s: %+v, want %v and the end", c.name, to, hops, routers)
	}
	return nil
}

// refused is nil when the destination's ICMP message, or reset, comes back.
func (c caller) refused(t *testing.T, to netip.AddrPort) error {
	for _, protocol := range []string{"udp", "tcp"} {
		all, err := c.call(t.Context(), protocol, to, 1)
		if err != nil {
			return err
		}
		if !all[0].Refused {
			return fmt.Errorf("%s from %s to the closed port %s: %+v", protocol, c.name, to, all[0])
		}
	}
	return nil
}

// unreachable is nil when the router says that it knows no way.
func (c caller) unreachable(t *testing.T, to netip.AddrPort, router netip.Addr) error {
	hops, err := tell[[]hop](t.Context(), c, "trace", "--to="+to.String(), "--hops=8")
	if err != nil {
		return err
	}
	const unreachable4, unreachable6 = 3, 1 // types of ICMP (RFC 792) and ICMPv6 (RFC 4443)
	if last := hops[len(hops)-1]; last.From != router || last.Type != unreachable4 && last.Type != unreachable6 {
		return fmt.Errorf("way from %s to %s: %+v, want it to end at %s", c.name, to, hops, router)
	}
	return nil
}
