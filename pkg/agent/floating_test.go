package agent_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
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

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/agent/neighbour"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	otherNode   = "node2"
	otherMAC    = "02:00:00:18:00:12"
	outsideLink = "wire0"
)

// segmented is a node with a gateway router, a host outside on its segment, and a second node in the database, whose
// chassis does not exist.
//
//	pods ── br-int ── br-ex ── nic0 ── wire0 (outside)
type segmented struct {
	*node
	outside string // the namespace of the host outside
	ways    []netip.Addr
}

func newSegmented(t *testing.T) *segmented {
	t.Helper()
	n := readyNode(t)
	n.giveNIC()
	s := &segmented{node: n, outside: n.newNetNS("outside")}
	s.wireOutside()
	bridge, err := netlink.LinkByName("br-ex")
	n.must(err)
	n.must(configure("br-ex", "fd00:18::11/64"))
	n.must(netlink.RouteReplace(&netlink.Route{LinkIndex: bridge.Attrs().Index, Gw: net.ParseIP("fd00:18::1")}))
	n.apply(topology.NetworkUnit(facts.Network{Join: prefixes("100.64.0.0/16", "fd98::/64"),
		Clusters: prefixes("10.244.0.0/16", "fd00:10:244::/48"), FloatingNetworks: prefixes("10.244.0.0/16", "fd00:10:244::/48")}))
	nn := n.edit(func(spec *networkv1alpha1.NodeNetworkSpec) {
		spec.Gateway = sharedGateway
		spec.JoinAddresses = []networkv1alpha1.InterfaceAddress{"100.64.0.2/16", "fd98::2/64"}
	})
	n.until("the link of both families", func() error {
		g := n.status().Gateway
		return isTrue(g != nil && len(g.Addresses) == 2 && len(g.NextHops) == 2, fmt.Sprint(g))
	})
	n.must(api.Get(n.Context(), types.NamespacedName{Name: nodeName}, nn))
	read, err := facts.ParseNodeNetwork(nn)
	n.must(err)
	n.apply(topology.NodeUnit(read)) // with its chassis
	s.ways = s.giveRouter(nn)
	s.giveOtherNode()
	n.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
	return s
}

// wireOutside makes the far end of the node's link a host of its segment, which is also the next hop.
func (s *segmented) wireOutside() {
	s.Helper()
	handle, err := ns.GetNS(s.outside)
	s.must(err)
	defer handle.Close()
	link, err := netlink.LinkByName(outsideLink)
	s.must(err)
	s.must(netlink.LinkSetNsFd(link, int(handle.Fd())))
	s.must(handle.Do(func(ns.NetNS) error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		return errors.Join(tool.Change(outsideLink, map[string]bool{"tx-checksum-ip-generic": false}),
			configure(outsideLink, nextHop+"/24", "fd00:18::1/64"))
	}))
}

// giveRouter writes the rows of a node's gateway, as the operator does, and returns the ways out.
func (s *segmented) giveRouter(nn *networkv1alpha1.NodeNetwork) []netip.Addr {
	s.Helper()
	read, err := facts.ParseGateway(nn, &corev1.Node{})
	s.must(err)
	s.apply(topology.GatewayUnit(read))
	return read.WaysOut()
}

// giveOtherNode writes the rows of a node whose chassis is elsewhere.
func (s *segmented) giveOtherNode() {
	s.Helper()
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: otherNode}, Spec: spec()}
	nn.Spec.NodeID, nn.Spec.PodSubnets = 2, []networkv1alpha1.CIDR{"10.244.2.0/24", "fd00:10:244:2::/64"}
	nn.Spec.ManagementPort.MACAddress = "0a:58:0a:f4:02:02"
	nn.Spec.JoinAddresses = []networkv1alpha1.InterfaceAddress{"100.64.0.3/16", "fd98::3/64"}
	nn.Status.Chassis = "elsewhere"
	nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{Mode: "Shared", Uplink: "Bridge", Bridge: "br-ex", Interface: "nic0",
		MACAddress: otherMAC, Addresses: []networkv1alpha1.InterfaceAddress{"172.18.0.12/24", "fd00:18::12/64"}}
	read, err := facts.ParseNodeNetwork(nn)
	s.must(err)
	s.apply(topology.NodeUnit(read))
	s.giveRouter(nn)
}

// give writes the rows of a pod, as the operator does.
func (s *segmented) give(p pod, change func(*topology.Pod)) {
	s.Helper()
	facts := topology.Pod{Namespace: "demo", Name: p.name, UID: p.uid, Node: nodeName, Chassis: s.status().Chassis,
		Addresses: p.addresses(), MAC: p.mac(), Slot: p.slot, WaysOut: s.ways}
	change(&facts)
	if len(facts.Floating) > 0 {
		facts.Addresses, facts.MAC = facts.Floating, ipam.MAC(facts.Floating)
	}
	s.apply(topology.PodUnit(facts))
}

func ips(texts ...string) (found []netip.Addr) {
	for _, text := range texts {
		found = append(found, netip.MustParseAddr(text))
	}
	return found
}

const thisHost = "" // the namespace of the test, which is the node's

// talk lets a client connect to port 8080 and exchange a word. It returns the address of the client as the server sees it.
func talk(server string, at netip.Addr, client string, to netip.Addr) (peer netip.Addr, err error) {
	return talkTo(server, at, client, netip.AddrPortFrom(to, 8080))
}

// talkTo is talk by another port, which leads to port 8080 of the server.
func talkTo(server string, at netip.Addr, client string, to netip.AddrPort) (peer netip.Addr, err error) {
	var listener net.Listener
	listen := func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(at, 8080).String())
		return err
	}
	if err := in(server, listen); err != nil {
		return peer, err
	}
	defer listener.Close()
	seen := make(chan netip.Addr, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		seen <- conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		word := make([]byte, 4)
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		if n, err := conn.Read(word); err == nil {
			_, _ = conn.Write(word[:n])
		}
	}()
	err = in(client, func() error {
		conn, err := net.DialTimeout("tcp", to.String(), time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		word := make([]byte, 4)
		_, err = conn.Write([]byte("weft"))
		if err == nil {
			_, err = conn.Read(word)
		}
		return err
	})
	if err != nil {
		return peer, err
	}
	return <-seen, nil
}

func in(netNS string, do func() error) error {
	if netNS == thisHost {
		return do()
	}
	return inNetNS(netNS, do)
}

// wantTalk waits until a client reaches a server, and checks the address that the server sees; invalid: any.
func (s *segmented) wantTalk(what, server string, at netip.Addr, client string, to, peer netip.Addr) {
	s.Helper()
	s.until(what, func() error {
		seen, err := talk(server, at, client, to)
		if err == nil && peer.IsValid() && seen != peer {
			err = fmt.Errorf("the server sees %s, want %s", seen, peer)
		}
		return err
	})
}

// A pod with floating addresses of both families talks with its node, another pod and the outside, in both directions.
func TestAPodWithFloatingAddressesTalks(t *testing.T) {
	s := newSegmented(t)
	db, web := s.newPod("db", 5), s.newPod("web", 6)
	floating := ips("10.244.200.5", "fd00:10:244:c8::5")
	s.give(db, func(p *topology.Pod) { p.Floating = floating })
	s.give(web, func(*topology.Pod) {})
	result := s.add(db)
	s.add(web)
	if len(result.IPs) != 2 || result.IPs[0].Address.String() != "10.244.200.5/32" || result.IPs[0].Gateway.String() != "10.244.1.1" ||
		result.IPs[1].Address.String() != "fd00:10:244:c8::5/128" || result.IPs[1].Gateway.String() != "fd00:10:244:1::1" {
		t.Errorf("the result has %v", result.IPs)
	}
	s.must(s.check(db, result))
	s.talksEverywhere(db, floating, web)
}

func (s *segmented) talksEverywhere(p pod, floating []netip.Addr, other pod) {
	s.Helper()
	management, link := ips("10.244.1.2", "fd00:10:244:1::2"), ips(encapIP, "fd00:18::11")
	next := ips(nextHop, "fd00:18::1")
	for i, own := range floating {
		s.wantTalk("the node connects", p.netNS, own, thisHost, own, management[i])
		s.wantTalk("to the node's management port", thisHost, management[i], p.netNS, management[i], own)
		s.wantTalk("to the node's address", thisHost, link[i], p.netNS, link[i], own)
		s.wantTalk("to another pod", other.netNS, other.addresses()[i], p.netNS, other.addresses()[i], own)
		s.wantTalk("another pod connects", p.netNS, own, other.netNS, own, other.addresses()[i])
		s.wantTalk("to the outside", s.outside, next[i], p.netNS, next[i], link[i])
	}
}

// A pod whose floating addresses come from another node has them here: its traffic, and no stale MAC of the earlier pod
// here, whose other address differs.
func TestAFloatingAddressMoves(t *testing.T) {
	s := newSegmented(t)
	web := s.newPod("web", 6)
	s.give(web, func(*topology.Pod) {})
	s.add(web)
	first := s.newPod("first", 7) // it has the IPv6 address here, so that the router learns its MAC
	s.give(first, func(p *topology.Pod) { p.Floating = ips("10.244.200.6", "fd00:10:244:c8::5") })
	s.add(first)
	s.talksEverywhere(first, ips("10.244.200.6", "fd00:10:244:c8::5"), web)
	s.del(first)
	s.apply(unit.Unit{Key: topology.PodKey("demo", "first")})

	floating := ips("10.244.200.5", "fd00:10:244:c8::5")
	elsewhere := s.newPod("db", 5)
	s.give(elsewhere, func(p *topology.Pod) {
		p.Floating, p.Node, p.Chassis, p.WaysOut, p.UID = floating, otherNode, "elsewhere", ips("100.64.0.3", "fd98::3"), "uid-elsewhere"
	})
	db := elsewhere
	s.give(db, func(p *topology.Pod) { p.Floating = floating })
	s.add(db)
	s.talksEverywhere(db, floating, web)
}

// When an EgressIP has come to the node, the node announces its addresses of both families.
func TestAnEgressIPIsAnnounced(t *testing.T) {
	s := newSegmented(t)
	addresses := ips("172.18.0.210", "fd00:18::210")
	s.knowsOther(s.outside, outsideLink, addresses)
	heard := s.listenAt(s.outside, outsideLink)
	e := facts.EgressIP{Name: "team-a", Addresses: addresses}
	for _, a := range addresses {
		e.Carried = append(e.Carried, facts.CarriedAddress{Address: a, Node: nodeName, Join: prefixes("100.64.0.2/16", "fd98::2/64"),
			Clusters: prefixes("10.244.0.0/16", "fd00:10:244::/48")})
	}
	s.apply(topology.EgressIPUnit(e))
	bridge, err := netlink.LinkByName("br-ex")
	s.must(err)
	s.awaitAnnouncements(heard, addresses, bridge.Attrs().HardwareAddr)
	s.awaitAnnouncements(heard, addresses, bridge.Attrs().HardwareAddr) // repeated
}

// A host outside reaches a pod at its translated addresses and sees the pod's connections with them. When the pod has
// moved to this node, the node announces it: a host that has the other node's MAC in its table gets the new one.
func TestATranslatedAddressIsAnnounced(t *testing.T) {
	s := newSegmented(t)
	translated, next := ips("172.18.0.201", "fd00:18::201"), ips(nextHop, "fd00:18::1")
	p := s.newPod("nat", 5)
	s.give(p, func(p *topology.Pod) {
		p.Translated, p.Node, p.Chassis, p.UID = translated, otherNode, "elsewhere", "uid-elsewhere"
		p.Addresses = ips("10.244.2.5", "fd00:10:244:2::5")
	})
	s.knowsOther(s.outside, outsideLink, translated)
	heard := s.listenAt(s.outside, outsideLink)
	s.give(p, func(p *topology.Pod) { p.Translated = translated })
	s.silent(translated) // another host may have the addresses, until the pod's ADD has probed them
	s.add(p)
	bridge, err := netlink.LinkByName("br-ex")
	s.must(err)
	s.awaitAnnouncements(heard, translated, bridge.Attrs().HardwareAddr)
	s.awaitAnnouncements(heard, translated, bridge.Attrs().HardwareAddr) // repeated
	for i, address := range translated {
		s.wantTalk("from outside", p.netNS, p.addresses()[i], s.outside, address, next[i])
		s.wantTalk("to outside", s.outside, next[i], p.netNS, next[i], address)
		s.wantTalk("the node connects to the pod's own address", p.netNS, p.addresses()[i], thisHost, p.addresses()[i], netip.Addr{})
	}
	s.give(p, func(*topology.Pod) {})
	s.until("no flow of the address", func() error {
		for _, flow := range s.flows() {
			if bytes.Contains([]byte(flow), []byte("172.18.0.201")) {
				return errors.New(flow)
			}
		}
		return nil
	})
}

// knowsOther gives a host the other node's MAC for addresses.
func (n *node) knowsOther(netNS, linkName string, addresses []netip.Addr) {
	n.Helper()
	mac, err := net.ParseMAC(otherMAC)
	n.must(err)
	n.must(inNetNS(netNS, func() error {
		link, err := netlink.LinkByName(linkName)
		if err != nil {
			return err
		}
		for _, address := range addresses {
			err = errors.Join(err, netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_STALE,
				IP: address.AsSlice(), HardwareAddr: mac}))
		}
		return err
	}))
}

// listenAt returns the frames that reach a link of a namespace.
func (n *node) listenAt(netNS, linkName string) <-chan []byte {
	n.Helper()
	const all = 3 // ETH_P_ALL
	var fd int
	n.must(inNetNS(netNS, func() (err error) {
		link, err := netlink.LinkByName(linkName)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		timeout := unix.Timeval{Usec: 100_000} // so that the reader sees the end of the test
		return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all << 8, Ifindex: link.Attrs().Index}))
	}))
	frames, done, ended := make(chan []byte, 1024), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for buffer := make([]byte, 2048); ; {
			select {
			case <-done:
				return
			default:
			}
			if n, _, err := unix.Recvfrom(fd, buffer, 0); err == nil {
				select {
				case frames <- bytes.Clone(buffer[:n]):
				default:
				}
			}
		}
	}()
	n.Cleanup(func() { close(done); <-ended; unix.Close(fd) })
	return frames
}

// silent waits until the bridge drops the router's claims of addresses. A host outside then gets no answer for them.
func (s *segmented) silent(addresses []netip.Addr) {
	s.Helper()
	for _, match := range []string{"arp_spa=" + addresses[0].String(), "nd_target=" + addresses[1].String()} {
		s.until("a flow with "+match, func() error {
			if !strings.Contains(strings.Join(s.flows(), " "), match) {
				return errors.New("it is missing")
			}
			return nil
		})
	}
	s.must(inNetNS(s.outside, func() error {
		return neighbour.Probe(s.Context(), neighbour.Segment{Link: outsideLink}, addresses)
	}))
}

// awaitAnnouncements waits for an unrequested announcement of each address with a MAC.
func (n *node) awaitAnnouncements(frames <-chan []byte, addresses []netip.Addr, mac net.HardwareAddr) {
	n.Helper()
	missing := map[netip.Addr]bool{}
	for _, address := range addresses {
		missing[address] = true
	}
	for timeout := time.After(patience); len(missing) > 0; {
		select {
		case frame := <-frames:
			if address, ok := announced(frame, mac); ok {
				delete(missing, address)
			}
		case <-timeout:
			n.Fatalf("not announced: %v", missing)
		}
	}
}

// announced returns the address that a frame announces: a gratuitous ARP (RFC 5227 §3) or an unsolicited neighbour
// advertisement (RFC 4861 §7.2.6).
func announced(frame []byte, mac net.HardwareAddr) (netip.Addr, bool) {
	const solicitedFlag = 0x40
	address, by, ok := neighbour.Claim(frame)
	switch {
	case !ok || !bytes.Equal(by, mac):
		return address, false
	case address.Is4():
		return address, bytes.Equal(frame[28:32], frame[38:42]) // the sender's address is the target's
	}
	return address, frame[58]&solicitedFlag == 0
}

// refused sends an ADD, which must be refused because somebody has an address, and waits for the pod's event. The
// recorder counts a later refusal of the pod as a repetition of the first.
func (n *node) refused(p pod, address netip.Addr, mac net.HardwareAddr) {
	n.Helper()
	answers, _ := n.startAdd(p)
	want := fmt.Sprintf("address %s is used already: %s answers for it", address, mac)
	if a := <-answers; a.err == nil || !strings.Contains(a.err.Error(), want) {
		n.Errorf("ADD of %s: %v, want %q", p.name, a.err, want)
	}
	n.until("an event", func() error {
		notes := n.events(p)
		return isTrue(slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, "is used already: "+mac.String()) }),
			fmt.Sprint(notes))
	})
}

// use gives a link of a namespace addresses, or takes them from it, and returns its MAC.
func (n *node) use(netNS, linkName string, taken bool, addresses ...string) (mac net.HardwareAddr) {
	n.Helper()
	n.must(inNetNS(netNS, func() error {
		link, err := netlink.LinkByName(linkName)
		if err != nil {
			return err
		}
		mac = link.Attrs().HardwareAddr
		for _, text := range addresses {
			address, change := &netlink.Addr{IPNet: mustIPNet(text), Flags: unix.IFA_F_NODAD}, netlink.AddrDel
			if taken {
				change = netlink.AddrAdd
			}
			err = errors.Join(err, change(link, address))
		}
		return err
	}))
	return mac
}

// A pod whose translated address a host of the segment has is refused, and gets it when that host has gone.
func TestATranslatedAddressInUse(t *testing.T) {
	s := newSegmented(t)
	s.must(ignoreExists(api.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})))
	translated := ips("172.18.0.202", "fd00:18::202")
	p := s.newPod("nat", 5)
	s.give(p, func(p *topology.Pod) { p.Translated = translated })
	for i, text := range []string{"172.18.0.202/24", "fd00:18::202/64"} {
		s.refused(p, translated[i], s.use(s.outside, outsideLink, true, text))
		s.use(s.outside, outsideLink, false, text)
	}
	s.add(p)
}

// nodeOnTrunk is a node with the Network segment on VLAN 100 of its second link, and the namespace of a host in the data centre.
func nodeOnTrunk(t *testing.T) (n *node, outside string) {
	t.Helper()
	state := t.TempDir()
	n = readyNodeWith(t, func(o *agent.Options) { o.State, o.Delegates = state, true })
	n.stopAgent()
	outside = n.plugTrunk()
	n.options = func(o *agent.Options) { o.State, o.Delegates, o.Mover = state, true, n.newMover() }
	n.startAgent()
	n.define("segment", networks.ConfigOf("segment"))
	n.setPhysical(networkv1alpha1.NodePhysicalNetwork{Name: "dc", Link: segmentNIC})
	n.wantPhysical("dc " + segmentBridge)
	n.apply(topology.PodNetworkUnit(segment(100)))
	return n, outside
}

// wantForeign waits until the status has these foreign hosts: "dc 100 10.77.0.50 02:00:00:00:00:cc".
func (n *node) wantForeign(want ...string) {
	n.Helper()
	n.until("foreign hosts", func() error {
		var have []string
		for _, host := range n.status().ForeignHosts {
			have = append(have, fmt.Sprint(host.PhysicalNetwork, " ", host.VLAN, " ", host.Address, " ", host.MACAddress))
		}
		return isTrue(slices.Equal(have, want), fmt.Sprintf("%q, want %q", have, want))
	})
}

// A pod of a Localnet Network is refused an address that a machine of the segment uses. A running pod's addresses are not probed
// again: it keeps its interface when a machine takes its address later and the agent is replaced.
func TestAnAddressOfASegmentInUse(t *testing.T) {
	n, outside := nodeOnTrunk(t)
	n.must(inNetNS(outside, func() error { return os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte("1"), 0) }))
	web, addresses := n.newRequester("web", 5, "segment"), prefixes("10.77.0.50/16", "fd77::50/64")
	web.giveSegmentPort(segment(100), addresses)
	used := []string{"10.77.0.50/32", "fd77::50/128"}
	var hosts []string
	for i, text := range used {
		mac := n.use(outside, "vlan100", true, text)
		n.refused(web.pod, addresses[i].Addr(), mac)
		n.use(outside, "vlan100", false, text)
		hosts = append(hosts, fmt.Sprintf("dc 100 %s %s", addresses[i].Addr(), mac))
		n.wantForeign(hosts...)
	}
	n.stopAgent()
	n.startAgent()
	n.until("STATUS", n.ready)
	n.wantForeign(hosts...)
	result := n.add(web.pod)
	n.wantForeign()
	n.use(outside, "vlan100", true, used...)
	n.stopAgent()
	n.startAgent()
	n.until("STATUS", n.ready)
	n.must(n.check(web.pod, result))
	n.use(outside, "vlan100", false, used...)
	n.pinTo(outside, 100)
	for _, address := range addresses {
		n.until("packets of "+address.String(), func() error {
			return exchangeFrom(outside, web.pod, netip.AddrPortFrom(address.Addr(), 8080))
		})
	}
}

// An Underlay pod is refused an address that a host has on its VLAN. Without such a host it comes up, and the segment
// learns where it is although it knew another MAC.
func TestAnUnderlayAddressIsProbedAndAnnounced(t *testing.T) {
	n, outside := nodeOnTrunk(t)
	web, addresses := n.newRequester("web", 5, "segment"), prefixes("10.77.0.50/16", "fd77::50/64")
	floating := ips("10.77.0.50", "fd77::50")
	web.giveSegmentPort(segment(100), addresses, floating...)

	n.use(outside, "vlan200", true, "10.77.0.50/32", "fd77::50/128") // another segment, where alone the host answers
	n.must(inNetNS(outside, func() error { return os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte("1"), 0) }))
	for i, text := range []string{"10.77.0.50/32", "fd77::50/128"} {
		n.refused(web.pod, floating[i], n.use(outside, "vlan100", true, text))
		n.use(outside, "vlan100", false, text)
	}
	n.use(outside, "vlan200", false, "10.77.0.50/32", "fd77::50/128")
	n.pinTo(outside, 100)
	n.knowsOther(outside, "vlan100", floating)
	heard := n.listenAt(outside, "vlan100")
	n.add(web.pod)
	n.awaitAnnouncements(heard, floating, ipam.MAC(floating[:1]))
	n.awaitAnnouncements(heard, floating[1:], ipam.MAC(floating[:1])) // repeated
	for _, address := range floating {
		n.until("packets of "+address.String(), func() error {
			return exchangeFrom(outside, web.pod, netip.AddrPortFrom(address, 8080))
		})
	}
}
