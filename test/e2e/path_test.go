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

// echoPort is the port where the peer echoes.
const echoPort = 7000

// echoPorts are service ports that lead to the peer's echo, over both protocols.
func echoPorts() []corev1.ServicePort {
	var ports []corev1.ServicePort
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
		ports = append(ports, corev1.ServicePort{Name: "echo-" + strings.ToLower(string(protocol)), Port: echoPort,
			Protocol: protocol, TargetPort: intstr.FromInt32(echoPort)})
	}
	return ports
}

// way is a path from a caller to an address that echoes.
type way struct {
	name     string
	from     caller
	to       []netip.Addr
	udp, tcp uint16 // ports
	mtu      int    // MTU of the narrowest link on the way; 0: no link is narrower than both ends
	balanced bool   // through a service
}

// testLargePackets checks that packets larger than a link on the way pass as they do through plain routers:
// datagrams in fragments, and streams in segments of the size that the sender learned.
func testLargePackets(t *testing.T, o outside) {
	nn := nodeNetwork("n1")
	must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(nn), nn))
	for _, w := range o.ways() {
		for _, a := range w.to {
			t.Run(fmt.Sprint(w.name, " at ", a), func(t *testing.T) {
				const datagram, stream = 9000, 1 << 20 // bytes
				udp := netip.AddrPortFrom(a, w.udp)
				if w.mtu > 0 {
					eventually(t, recoveryTimeout, func() error { return w.from.receivesTooBig(t, udp, w.mtu) })
				}
				eventually(t, recoveryTimeout, func() error { return w.from.sendsStream(t, netip.AddrPortFrom(a, w.tcp), stream) })
				if why := w.noFragments(nn.Status.DatapathType); why != "" {
					t.Log("skipping datagrams in fragments:", why)
					return
				}
				eventually(t, recoveryTimeout, func() error { return w.from.sendsDatagram(t, udp, datagram, "--fragments") })
			})
		}
	}
}

// noFragments returns why the test sends no fragmented datagrams, or an empty string. The reason is Open vSwitch's
// own connection tracker (3.5, not the kernel's).
func (w way) noFragments(datapath networkv1alpha1.DatapathType) string {
	if w.balanced && datapath == networkv1alpha1.DatapathNetdev {
		// It forwards each fragment alone, and OVN's load balancers read the port in each fragment.
		return "the userspace datapath does not reassemble them for OVN's load balancers"
	}
	return ""
}

func (o outside) ways() []way {
	var ways []way
	for _, n := range o.nodes {
		from := bed.podCaller(o.pods[n.Name])
		s := o.all["Cluster"]
		ways = append(ways,
			way{name: "pod of " + n.Name + " to outside", from: from, to: ofMachine(lab.Outside()).Addresses,
				udp: echoPort, tcp: echoPort},
			way{name: "pod of " + n.Name + " to a narrow link", from: from, to: ofMachine(lab.Far()).Addresses,
				udp: echoPort, tcp: echoPort, mtu: lab.Far().MTU},
			way{name: "outside to the node port of " + n.Name, from: bed.hostCaller(lab.Outside().Name),
				to:  ofMachine(o.column.at(n)).Addresses,
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

// outcome is the output of peer datagram.
type outcome struct {
	TooLong, Echoed bool
	Error           string
}

func (c caller) datagram(t *testing.T, to netip.AddrPort, size int, more ...string) (outcome, error) {
	return runJSON[outcome](t.Context(), c,
		append([]string{"datagram", "--to=" + to.String(), "--size=" + strconv.Itoa(size)}, more...)...)
}

func (c caller) sendsDatagram(t *testing.T, to netip.AddrPort, size int, more ...string) error {
	o, err := c.datagram(t, to, size, more...)
	if err == nil && !o.Echoed {
		err = fmt.Errorf("datagram of %d bytes from %s to %s: %+v", size, c.name, to, o)
	}
	return err
}

// receivesTooBig returns nil if a packet of the MTU passes, and the sender of a larger packet that must not be
// fragmented learns that it is too large.
func (c caller) receivesTooBig(t *testing.T, to netip.AddrPort, mtu int) error {
	if err := c.sendsDatagram(t, to, mtu); err != nil {
		return err
	}
	o, err := c.datagram(t, to, mtu+1)
	if err == nil && !o.TooLong {
		err = fmt.Errorf("datagram of %d bytes from %s to %s: %+v, want it refused as too long", mtu+1, c.name, to, o)
	}
	return err
}

func (c caller) sendsStream(t *testing.T, to netip.AddrPort, size int64) error {
	o, err := runJSON[struct {
		Echoed int64
		Error  string
	}](t.Context(), c, "bulk", "--to="+to.String(), fmt.Sprint("--bytes=", size))
	if err == nil && (o.Error != "" || o.Echoed != size) {
		err = fmt.Errorf("stream from %s to %s: %+v", c.name, to, o)
	}
	return err
}

// hop is the output of peer trace for one hop limit.
type hop struct {
	Limit   int
	From    netip.Addr
	Type    uint8
	Code    uint8
	Reached bool
}

// testRouters checks that routers on the way report to a pod that a packet's hop limit is exceeded, that a port is
// closed, and that an address has no route.
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

// routersOf returns the routers between a pod and the host outside: the cluster's, the node's gateway and the lab's.
// The node's gateway is OVN's gateway router, or the node itself under its management port's address. Over IPv6,
// OVN's routers answer only hosts on their own links. A gateway router has no pods on its links, so its place in the
// list holds the zero address.
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

// passes returns nil if every router on the way sends its ICMP error and the destination answers behind them.
func (c caller) passes(t *testing.T, to netip.AddrPort, routers []netip.Addr) error {
	hops, err := runJSON[[]hop](t.Context(), c, "trace", "--to="+to.String())
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
		return fmt.Errorf("path from %s to %s: %+v, want routers %v and then the destination", c.name, to, hops, routers)
	}
	return nil
}

// refused returns nil if the destination's ICMP message, or its reset, comes back.
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

// unreachable returns nil if the router reports that it has no route.
func (c caller) unreachable(t *testing.T, to netip.AddrPort, router netip.Addr) error {
	hops, err := runJSON[[]hop](t.Context(), c, "trace", "--to="+to.String(), "--hops=8")
	if err != nil {
		return err
	}
	const unreachable4, unreachable6 = 3, 1 // types of ICMP (RFC 792) and ICMPv6 (RFC 4443)
	if last := hops[len(hops)-1]; last.From != router || last.Type != unreachable4 && last.Type != unreachable6 {
		return fmt.Errorf("path from %s to %s: %+v, want it to end at %s", c.name, to, hops, router)
	}
	return nil
}
