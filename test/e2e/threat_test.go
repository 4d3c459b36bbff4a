//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/test/lab"
)

// TestTunnelsAreForNodesAlone sends a Geneve packet with a frame for a pod. From another node's host it arrives,
// which shows that the packet is valid. From a pod, from outside, and through a service whose endpoint is the
// tunnel's end, it must not arrive in any mode of the gateway.
func TestTunnelsAreForNodesAlone(t *testing.T) {
	victim, liar, near := bed.peerPod("tunnel-victim", "n1"), bed.peerPod("tunnel-liar", "n2"), bed.peerPod("tunnel-near", "n1")
	bed.run(t, victim, liar, near)
	bed.mustReach(t, liar, near, victim)
	s := bed.tunnelService(t, lab.Node(1))
	listener := startListening(t, bed.podCaller(victim), "eth0")
	forged := tunnelledTo(t, victim)
	first := column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkBridge}
	t.Cleanup(func() { bed.setGateway(t, cleanup(), first) })
	for _, c := range []column{first, {networkv1alpha1.GatewayShared, networkv1alpha1.UplinkInterface},
		{networkv1alpha1.GatewayLocal, networkv1alpha1.UplinkBridge}} {
		t.Run(c.String(), func(t *testing.T) {
			bed.setGateway(t, t.Context(), c)
			bed.mustReach(t, liar, near, victim)
			for round := range 3 { // all neighbours are resolved by the second round
				for _, from := range []caller{bed.podCaller(liar), bed.podCaller(near), bed.hostCaller(lab.Outside().Name)} {
					for _, to := range tunnelEnds(s, c) {
						forged.send(t, from, to, fmt.Sprint(from.name, " to ", to))
					}
				}
				truth := fmt.Sprint(c, round, truly)
				forged.send(t, bed.hostCaller("n2"), netip.AddrPortFrom(lab.Node(1).IPv4.Addr(), ports.Geneve), truth)
				for _, label := range listener.until(t, truth) {
					if !strings.HasSuffix(label, truly) {
						t.Errorf("round %d: the listener received %q, want it dropped", round, label)
					}
				}
			}
		})
	}
}

// tunnelService returns a service with a node port on all nodes, whose only endpoint is a node's tunnel endpoint.
func (b *testbed) tunnelService(t *testing.T, node lab.Machine) *corev1.Service {
	t.Helper()
	s := service("tunnel", "", func(s *corev1.ServiceSpec) {
		s.Type, s.Selector = corev1.ServiceTypeNodePort, nil
		s.Ports = []corev1.ServicePort{{Name: "geneve", Port: 80, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(ports.Geneve)}}
	})
	b.create(t, s)
	for i, a := range ofMachine(node).Addresses {
		b.create(t, worldSlice(s, i, a))
	}
	must(t, b.api.Get(t.Context(), client.ObjectKeyFromObject(s), s))
	return s
}

// tunnelEnds returns all addresses that lead to n1's tunnel endpoint.
func tunnelEnds(s *corev1.Service, c column) (ends []netip.AddrPort) {
	for _, a := range slices.Concat(ofMachine(lab.Node(1)).Addresses, ofMachine(c.at(lab.Node(1))).Addresses) {
		ends = append(ends, netip.AddrPortFrom(a, ports.Geneve))
	}
	for _, node := range []lab.Machine{lab.Node(1), lab.Node(2)} {
		for _, a := range ofMachine(c.at(node)).Addresses {
			ends = append(ends, netip.AddrPortFrom(a, uint16(s.Spec.Ports[0].NodePort)))
		}
	}
	for _, ip := range s.Spec.ClusterIPs {
		ends = append(ends, netip.AddrPortFrom(netip.MustParseAddr(ip), 80))
	}
	return ends
}

// tunnelled holds the flags for a frame to a pod inside a Geneve packet.
type tunnelled flags

// tunnelledTo reads the keys of a pod's port and builds a datagram to it with an unused source.
func tunnelledTo(t *testing.T, to *corev1.Pod) tunnelled {
	t.Helper()
	ports, err := bed.rows(t.Context(), bed.central, "ovn-sbctl", "Port_Binding", "logical_port,tunnel_key,datapath")
	must(t, err)
	networks, err := bed.rows(t.Context(), bed.central, "ovn-sbctl", "Datapath_Binding", "_uuid,tunnel_key")
	must(t, err)
	a := address(t, to, is4)
	for _, p := range ports {
		if p.text("logical_port") != portOf(to) {
			continue
		}
		for _, n := range networks {
			if n.uuid("_uuid") == p.uuid("datapath") {
				return tunnelled{"vni": fmt.Sprint(n["tunnel_key"]), "egress": fmt.Sprint(p["tunnel_key"]), "ingress": "1",
					"src-mac": strangerMAC, "dst-mac": macOf(t, to), "src": strangerOf(a).String(), "dst": a.String()}
			}
		}
	}
	t.Fatalf("pod %s has no port", to.Name)
	return nil
}

func (f tunnelled) send(t *testing.T, from caller, to netip.AddrPort, label string) {
	t.Helper()
	argv := []string{"tunnel", "--to=" + to.String(), "--label=" + label}
	for k, v := range f {
		argv = append(argv, "--"+k+"="+v)
	}
	// A host without a route refuses immediately.
	if _, err := from.run(t.Context(), nil, argv...); err != nil && strings.HasSuffix(label, truly) {
		t.Fatal(err)
	}
}

// TestPodsLeaveThroughTheRouter sends datagrams outside: to the MAC of the router they arrive, and to the MAC of the management port they
// must not, because the host would forward them past the router, with its egress IPs, and past limits and marks.
func TestPodsLeaveThroughTheRouter(t *testing.T) {
	liar := bed.peerPod("router-avoider", "n1")
	bed.run(t, liar)
	outside := lab.Outside()
	listener := startListening(t, bed.hostCaller(outside.Name), "eth0")
	first := column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkBridge}
	t.Cleanup(func() { bed.setGateway(t, cleanup(), first) })
	for _, c := range []column{first, {networkv1alpha1.GatewayLocal, networkv1alpha1.UplinkBridge}} {
		t.Run(c.String(), func(t *testing.T) {
			bed.setGateway(t, t.Context(), c)
			for _, to := range both(outside) {
				own := address(t, liar, is4)
				host := ipam.MAC([]netip.Addr{gatewayOf(own).Next()}).String() // of the management port
				if to.Is6() {
					own = address(t, liar, is6)
				}
				datagram := flags{"kind": "udp", "src": own.String(), "dst": to.String()}
				bed.frame(t, bed.podCaller(liar), datagram, flags{"dst-mac": host, "label": "past the router"})
				truth := fmt.Sprint(c, own, truly)
				bed.frame(t, bed.podCaller(liar), datagram, flags{"dst-mac": routerMAC(t, "n1"), "label": truth})
				if got := listener.until(t, truth); !slices.Equal(got, []string{truth}) {
					t.Errorf("outside received %q", got)
				}
			}
		})
	}
}

// bySelf marks messages that a pod sends from its own addresses.
const bySelf = "by its own"

// TestPodsAreNoRouters sends messages of routers and DHCP servers, from a pod and from the nodes' segment. Routes
// and addresses of pods and hosts must not change.
func TestPodsAreNoRouters(t *testing.T) {
	liar, victim := bed.peerPod("router-liar", "n1"), bed.peerPod("router-victim", "n1")
	bed.run(t, liar, victim)
	bed.mustReach(t, liar, victim)
	listener := startListening(t, bed.podCaller(victim), "eth0")
	before := routesOf(t, victim)
	for name, f := range fromRouters(t, liar, victim) {
		bed.frame(t, bed.podCaller(liar), f, flags{"label": name})
	}
	truth := "pod" + truly
	bed.frame(t, bed.podCaller(liar), flags{"kind": "udp", "src": address(t, liar, is4).String(),
		"dst": address(t, victim, is4).String(), "dst-mac": macOf(t, victim)}, flags{"label": truth})
	for _, label := range listener.until(t, truth) {
		if !strings.Contains(label, bySelf) && label != truth { // a message from the pod's own addresses arrives, but has no effect
			t.Errorf("a message came through from the pod: %s", label)
		}
	}
	for name, f := range fromSegment(t, liar, victim) {
		bed.frame(t, bed.hostCaller(lab.Router().Name), f, flags{"label": name})
	}
	truth = "segment" + truly
	bed.frame(t, bed.podCaller(liar), flags{"kind": "udp", "src": address(t, liar, is4).String(),
		"dst": address(t, victim, is4).String(), "dst-mac": macOf(t, victim)}, flags{"label": truth})
	for _, label := range listener.until(t, truth) {
		if !strings.HasSuffix(label, truly) {
			t.Errorf("a message came through from the segment: %s", label)
		}
	}
	after := routesOf(t, victim)
	for what, text := range before {
		if after[what] != text {
			t.Errorf("%s was\n%s\nand is\n%s", what, text, after[what])
		}
	}
}

// frame sends one frame from a caller.
func (b *testbed) frame(t *testing.T, from caller, f ...flags) {
	t.Helper()
	all, argv := flags{}, []string{"frame"}
	for _, more := range f {
		maps.Copy(all, more)
	}
	for k, v := range all {
		argv = append(argv, "--"+k+"="+v)
	}
	_, err := from.run(t.Context(), nil, argv...)
	must(t, err)
}

// fromRouters returns messages of a router or DHCP server that a pod sends to another pod and to the node, from its
// own addresses and from the gateway's.
func fromRouters(t *testing.T, from, to *corev1.Pod) map[string]flags {
	t.Helper()
	own4, own6, to4, to6 := address(t, from, is4), address(t, from, is6), address(t, to, is4), address(t, to, is6)
	gateway := routerMAC(t, "n1")
	out := ofMachine(lab.Outside()).Addresses
	all := map[string]flags{}
	for who, src := range map[string]netip.Addr{"its own": linkLocal(t, macOf(t, from)), "its own global": own6,
		"the router's": linkLocal(t, gateway), "the gateway's": gatewayOf(own6)} {
		all["advertisement of a router to all by "+who] = flags{"kind": "router", "src": src.String(),
			"dst": "ff02::1", "dst-mac": "33:33:00:00:00:01", "claim": "fd66::"}
		for node, mac := range map[string]string{"pod": macOf(t, to), "node": managementMAC(t, "n1")} {
			all["advertisement of a router to the "+node+" by "+who] = flags{"kind": "router", "src": src.String(),
				"dst": linkLocal(t, mac).String(), "dst-mac": mac, "claim": "fd66::"}
		}
		all["redirect by "+who] = flags{"kind": "redirect", "src": src.String(), "dst": to6.String(), "dst-mac": macOf(t, to),
			"claim": linkLocal(t, macOf(t, from)).String(), "about": out[1].String()}
		all["DHCPv6 by "+who] = flags{"kind": "lease", "src": src.String(),
			"dst": linkLocal(t, macOf(t, to)).String(), "dst-mac": macOf(t, to)}
	}
	for who, src := range map[string]netip.Addr{"its own": own4, "the gateway's": gatewayOf(own4)} {
		all["ICMP redirect by "+who] = flags{"kind": "redirect", "src": src.String(), "dst": to4.String(),
			"dst-mac": macOf(t, to), "claim": own4.String(), "about": out[0].String()}
		all["DHCP to all by "+who] = flags{"kind": "lease", "src": src.String(), "dst": "255.255.255.255",
			"dst-mac": "ff:ff:ff:ff:ff:ff", "claim": strangerOf(own4).String()}
		all["DHCP to the pod by "+who] = flags{"kind": "lease", "src": src.String(), "dst": to4.String(),
			"dst-mac": macOf(t, to), "claim": strangerOf(own4).String()}
	}
	return all
}

// fromSegment returns redirects from a machine on the nodes' segment to a node, and to a pod in the name of its
// routers.
func fromSegment(t *testing.T, near, to *corev1.Pod) map[string]flags {
	t.Helper()
	all, node := map[string]flags{}, lab.Node(1)
	for i, family := range []func(netip.Addr) bool{is4, is6} {
		out, pod := ofMachine(lab.Outside()).Addresses[i], address(t, to, family)
		all[fmt.Sprint("redirect of n1, ", i)] = flags{"kind": "redirect",
			"src": ofMachine(lab.Router()).Addresses[i].String(), "dst": ofMachine(node).Addresses[i].String(),
			"claim": ofMachine(lab.Node(2)).Addresses[i].String(), "about": out.String(), "dst-mac": node.MAC.String()}
		for who, src := range map[string]netip.Addr{"its gateway": gatewayOf(pod), "a neighbour": address(t, near,
			family), "the segment's router": ofMachine(lab.Router()).Addresses[i]} {
			all[fmt.Sprint("redirect of a pod as ", who, ", ", i)] = flags{"kind": "redirect", "src": src.String(), "dst": pod.String(),
				"claim": address(t, near, family).String(), "about": out.String(), "dst-mac": node.MAC.String()}
		}
	}
	return all
}

// routesOf returns the routes and addresses of the host n1 and of a pod there.
func routesOf(t *testing.T, pod *corev1.Pod) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, argv := range []string{"-4 route", "-6 route", "-4 addr show dev eth0", "-6 addr show dev eth0",
		"route get 198.51.100.10", "-6 route get 2001:db8:100::10"} {
		out, err := bed.in(t.Context(), pod, append([]string{"ip"}, strings.Fields(argv)...)...)
		if err != nil {
			t.Logf("pod: ip %s: %v", argv, err)
		}
		texts["pod: ip "+argv] = string(out)
	}
	link := names.ManagementInterface
	if accepts := bed.mustExec(t, "n1", "cat", "/proc/sys/net/ipv6/conf/"+link+"/accept_ra"); strings.TrimSpace(accepts) != "0" {
		t.Errorf("n1 accepts router advertisements from %s: %s", link, accepts)
	}
	for _, argv := range []string{"-4 route", "-6 route", "-o addr show dev " + link, "-4 route get 198.51.100.10",
		"-6 route get 2001:db8:100::10"} {
		texts["n1: ip "+argv] = bed.mustExec(t, "n1", append([]string{"ip"}, strings.Fields(argv)...)...)
	}
	return texts
}

// managementMAC returns the MAC of a node's management port.
func managementMAC(t *testing.T, node string) string {
	t.Helper()
	return strings.TrimSpace(bed.mustExec(t, node, "cat", "/sys/class/net/"+names.ManagementInterface+"/address"))
}

// linkLocal returns the link-local address derived from a MAC (RFC 4291, appendix A).
func linkLocal(t *testing.T, text string) netip.Addr {
	t.Helper()
	mac, err := net.ParseMAC(text)
	must(t, err)
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe,
		13: mac[3], 14: mac[4], 15: mac[5]})
}
