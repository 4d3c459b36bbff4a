package agent_test

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/go-logr/logr"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/agent/uninstall"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/pkg/topology"
)

const (
	segmentNIC    = "nic5"
	segmentBridge = "brnic5"
	trunk         = "trunk5" // the other end of the cable
)

// plugTrunk gives the node a link without addresses to a switch of the data centre, and returns the namespace of a host
// there. The switch has the host's links as access ports of VLAN 100 and VLAN 200.
//
//	nic5 ── trunk5 ─ br-outside ─┬─ access100 ── vlan100 (host)
//	                             └─ access200 ── vlan200 (host)
func (n *node) plugTrunk() (host string) {
	n.Helper()
	host = n.newNetNS("datacentre")
	handle, err := ns.GetNS(host)
	n.must(err)
	defer handle.Close()
	n.must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: segmentNIC, MTU: 1500}, PeerName: trunk}))
	n.must(errors.Join(configure(segmentNIC), configure(trunk)))
	n.ovs.Ctl("add-br", "br-outside", "--", "set", "Bridge", "br-outside", "datapath_type="+ovndbtest.Datapath(n),
		"--", "add-port", "br-outside", trunk)
	for _, vlan := range []int{100, 200} {
		access, link := fmt.Sprintf("access%d", vlan), fmt.Sprintf("vlan%d", vlan)
		n.must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: access, MTU: 1500},
			PeerName: link, PeerNamespace: netlink.NsFd(int(handle.Fd()))}))
		n.must(configure(access))
		n.ovs.Ctl("add-port", "br-outside", access, fmt.Sprintf("tag=%d", vlan))
		n.must(handle.Do(func(ns.NetNS) error {
			tool, err := ethtool.NewEthtool()
			if err != nil {
				return err
			}
			defer tool.Close()
			// A physical link has checksums on the wire, unlike a veth.
			return errors.Join(tool.Change(link, map[string]bool{"tx-checksum-ip-generic": false}),
				configure(link, fmt.Sprintf("10.77.%d.1/16", vlan), fmt.Sprintf("fd77::%d:1/64", vlan)))
		}))
	}
	return host
}

// setPhysical sets spec.physicalNetworks, as the operator does.
func (n *node) setPhysical(all ...networkv1alpha1.NodePhysicalNetwork) {
	n.Helper()
	n.edit(func(spec *networkv1alpha1.NodeNetworkSpec) { spec.PhysicalNetworks = all })
}

// wantPhysical waits until the status has these physical networks: "dc brnic5", or "dc: why it is not ready".
func (n *node) wantPhysical(want ...string) {
	n.Helper()
	n.until("physical networks", func() error {
		var have []string
		for _, p := range n.status().PhysicalNetworks {
			text := fmt.Sprint(p.Name, " ", p.Bridge)
			if p.MACAddress == "" {
				text = fmt.Sprint(p.Name, " has no MAC")
			}
			if !p.Ready {
				text = fmt.Sprint(p.Name, ": ", p.Message)
			}
			have = append(have, text)
		}
		same := func(have, want string) bool { return strings.Contains(have, want) }
		return isTrue(slices.EqualFunc(have, want, same), fmt.Sprintf("%q, want %q", have, want))
	})
}

func segment(vlan int) facts.PodNetwork {
	return facts.PodNetwork{Name: "segment", Topology: networkv1alpha1.TopologyLocalnet, PhysicalNetwork: "dc", VLAN: vlan,
		Subnets: []ipam.Network{{CIDR: netip.MustParsePrefix("10.77.0.0/16")}, {CIDR: netip.MustParsePrefix("fd77::/64")}}}
}

// giveSegmentPort writes the pod's port on a network, as the operator does.
func (r *requester) giveSegmentPort(network facts.PodNetwork, addresses []netip.Prefix, floating ...netip.Addr) {
	r.Helper()
	requests, err := networks.Parse(r.object.Annotations, "demo")
	r.must(err)
	r.apply(topology.PodPortsUnit("demo", r.name, []topology.PodPort{{Namespace: "demo", Name: r.name, UID: r.uid, Node: nodeName,
		Chassis: r.status().Chassis, Network: network, Interface: requests[0].Interface, Request: requests[0].Hash(),
		Addresses: addresses, Floating: floating, MAC: ipam.MAC([]netip.Addr{addresses[0].Addr()}), Slot: 16}}))
}

// exchangeFrom exchanges a word between a namespace and the pod.
func exchangeFrom(netNS string, p pod, at netip.AddrPort) error {
	return inNetNS(netNS, func() error { return exchange(p, at) })
}

// pinTo gives the host in the data centre routes to the pods by one VLAN only.
func (n *node) pinTo(outside string, vlan int) {
	n.Helper()
	n.must(inNetNS(outside, func() error {
		link, err := netlink.LinkByName(fmt.Sprintf("vlan%d", vlan))
		if err != nil {
			return err
		}
		return errors.Join(
			netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: mustIPNet("10.77.0.50/32")}),
			netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: mustIPNet("fd77::50/128")}))
	}))
}

// Pods of a Localnet network exchange packets with a host of the data centre, with the VLAN's tag, in both families. The
// node's link comes back when the physical network goes.
func TestPodsOnASegmentOfTheDataCentre(t *testing.T) {
	state := t.TempDir()
	n := readyNodeWith(t, func(o *agent.Options) { o.State, o.Delegates = state, true })
	n.stopAgent()
	outside := n.plugTrunk()
	before := linkOf(n, segmentNIC)
	n.ovs.Ctl("set", "Open_vSwitch", ".", "external_ids:ovn-bridge-mappings=other:br-other")
	n.options = func(o *agent.Options) { o.State, o.Delegates, o.Mover = state, true, n.newMover() }
	n.startAgent()
	n.define("segment", networks.ConfigOf("segment"))
	n.setPhysical(networkv1alpha1.NodePhysicalNetwork{Name: "dc", Link: segmentNIC})
	n.wantPhysical("dc " + segmentBridge)
	n.awaitCondition(networkv1alpha1.ConditionPhysicalNetworksReady, metav1.ConditionTrue)
	n.wantMappings("other:br-other,dc:" + segmentBridge)

	addresses := prefixes("10.77.0.50/16", "fd77::50/64")
	web := n.newRequester("web", 5, "segment")
	n.apply(topology.PodNetworkUnit(segment(100)))
	web.giveSegmentPort(segment(100), addresses)
	n.add(web.pod)
	n.wantTraffic(web.pod) // its interface on the cluster network works as before
	wantSegment := func(vlan int) {
		n.pinTo(outside, vlan)
		for _, address := range addresses {
			n.until(fmt.Sprintf("packets with VLAN %d of %s", vlan, address), func() error {
				return exchangeFrom(outside, web.pod, netip.AddrPortFrom(address.Addr(), 8080))
			})
		}
	}
	wantSegment(100)
	if text := n.central.SB.Ctl("--bare", "--columns=tag", "find", "Port_Binding", "type=localnet"); strings.TrimSpace(text) != "100" {
		t.Errorf("the tag is %q", text)
	}

	t.Run("no datagram for a tunnel leaves", func(t *testing.T) {
		for _, to := range []string{"10.77.100.1", "fd77::100:1"} {
			n.wantNoTunnel(outside, web.pod, netip.MustParseAddr(to))
		}
	})
	t.Run("a restart writes nothing", func(t *testing.T) {
		n.stopAgent()
		writes := n.counter.count("Open_vSwitch")
		n.startAgent()
		n.until("STATUS", n.ready)
		wantSegment(100)
		if got := n.counter.count("Open_vSwitch"); got != writes {
			t.Errorf("%d transactions in Open vSwitch", got-writes)
		}
	})
	t.Run("another VLAN", func(t *testing.T) {
		n.apply(topology.PodNetworkUnit(segment(200)))
		wantSegment(200)
		n.pinTo(outside, 100)
		if err := exchangeFrom(outside, web.pod, netip.AddrPortFrom(addresses[0].Addr(), 8080)); err == nil {
			t.Error("packets of VLAN 100 still reach the pod")
		}
	})
	t.Run("someone removes the port", func(t *testing.T) {
		n.ovs.Ctl("del-port", segmentBridge, segmentNIC)
		wantSegment(200)
	})
	n.del(web.pod)
	// another program adds its mapping after ours
	both := "other:br-other,dc:" + segmentBridge + ",late:br-late"
	n.ovs.Ctl("set", "Open_vSwitch", ".", `external_ids:ovn-bridge-mappings="`+both+`"`)
	n.setPhysical()
	n.wantPhysical()
	n.wantMappings("other:br-other,late:br-late")
	n.until("the link as before", func() error {
		_, left := ovndb.Find(n.rows, &vswitchdb.Bridge{Name: segmentBridge})
		have := linkOf(n, segmentNIC)
		return isTrue(have == before && !left, fmt.Sprintf("%s, want %s; bridge is there: %t", have, before, left))
	})
	n.awaitCondition(networkv1alpha1.ConditionPhysicalNetworksReady, metav1.ConditionTrue)
}

// wantNoTunnel sends datagrams from the pod to the host in the data centre: one to the port of tunnels, and then one to
// another port, until the other arrives.
func (n *node) wantNoTunnel(host string, p pod, to netip.Addr) {
	n.Helper()
	listen := func(port uint16) (conn net.PacketConn) {
		n.must(inNetNS(host, func() (err error) {
			conn, err = net.ListenPacket("udp", netip.AddrPortFrom(to, port).String())
			return err
		}))
		n.Cleanup(func() { conn.Close() })
		return conn
	}
	const other = ports.Geneve + 1
	tunnel, plain := listen(ports.Geneve), listen(other)
	n.until("a datagram to another port", func() error {
		for _, port := range []uint16{ports.Geneve, other} {
			n.must(inNetNS(p.netNS, func() error { return sendWord(netip.AddrPortFrom(to, port)) }))
		}
		return receive(plain, time.Second)
	})
	if err := receive(tunnel, time.Millisecond); err == nil {
		n.Errorf("a datagram to port %d of %s left the node", ports.Geneve, to)
	}
}

func sendWord(to netip.AddrPort) error {
	conn, err := net.Dial("udp", to.String())
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte("weft"))
	return errors.Join(err, conn.Close())
}

func receive(conn net.PacketConn, timeout time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, _, err := conn.ReadFrom(make([]byte, 16))
	return err
}

func (n *node) wantMappings(want string) {
	n.Helper()
	entries := vswitchdb.SplitMappings(want)
	slices.Sort(entries)
	n.until("mappings", func() error {
		return isTrue(slices.Equal(slices.Sorted(slices.Values(vswitchdb.SplitMappings(n.mappings()))), entries), n.mappings())
	})
}

// linkOf describes a link: its flags, MTU, MAC and global addresses.
func linkOf(n *node, name string) string {
	link, err := netlink.LinkByName(name)
	n.must(err)
	a := link.Attrs()
	return fmt.Sprint(a.Name, " ", a.Flags, " ", a.MTU, " ", a.HardwareAddr, " ", addressesOf(name))
}

// The gateway's bridge needs no entry: pods on its untagged segment and the host reach each other.
func TestPodsOnTheGatewaysSegment(t *testing.T) {
	n := gatewayNode(t)
	host, err := netlink.LinkByName("br-ex")
	n.must(err)
	n.must(netlink.AddrAdd(host, &netlink.Addr{IPNet: mustIPNet("fd00:18::11/64"), Flags: unix.IFA_F_NODAD}))
	n.wantPhysical("physnet br-ex")
	lan := facts.PodNetwork{Name: "lan", Topology: networkv1alpha1.TopologyLocalnet, PhysicalNetwork: "physnet"}
	n.define("lan", networks.ConfigOf("lan"))
	n.apply(topology.PodNetworkUnit(lan))
	web, addresses := n.newRequester("web", 5, "lan"), prefixes("172.18.0.50/24", "fd00:18::50/64")
	web.giveSegmentPort(lan, addresses)
	n.add(web.pod)
	for _, address := range addresses {
		n.until("packets between the host and "+address.String(), func() error {
			return exchange(web.pod, netip.AddrPortFrom(address.Addr(), 8080))
		})
	}
	n.wantTraffic(web.pod)
	n.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
}

// A physical network that a node lacks is named with the reason, and becomes ready when the node has it. Other physical
// networks work meanwhile, and so does the node.
func TestAPhysicalNetworkThatANodeLacks(t *testing.T) {
	n := readyNodeWith(t, nil)
	n.stopAgent()
	n.options = func(o *agent.Options) { o.Mover = n.newMover() }
	n.ovs.Ctl("set", "Open_vSwitch", ".", "external_ids:ovn-bridge-mappings=taken:br-theirs")
	n.startAgent()
	n.giveNIC()
	n.setGateway(sharedGateway)
	n.wantPhysical("physnet br-ex")
	n.setPhysical(networkv1alpha1.NodePhysicalNetwork{Name: "bridged", Bridge: "br-own"},
		networkv1alpha1.NodePhysicalNetwork{Name: "dc", Link: segmentNIC},
		networkv1alpha1.NodePhysicalNetwork{Name: "gateways", Link: "br-ex"},
		networkv1alpha1.NodePhysicalNetwork{Name: "shared", Bridge: "br-ex"},
		networkv1alpha1.NodePhysicalNetwork{Name: "taken", Bridge: "br-ex"})
	missing := []string{"bridged: bridge br-own: Open vSwitch has no such bridge", "dc: link nic5: the node has no such link",
		"gateways: link br-ex: the link is not moved: it is the gateway's", "shared br-ex",
		"taken: another program has mapped the name to bridge br-theirs", "physnet br-ex"}
	n.wantPhysical(missing...)
	n.wantMappings("taken:br-theirs,shared:br-ex,physnet:br-ex")
	c := meta.FindStatusCondition(n.status().Conditions, networkv1alpha1.ConditionPhysicalNetworksReady)
	if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "physical network bridged: bridge br-own") ||
		!strings.Contains(c.Message, "physical network dc: link nic5") {
		t.Errorf("the condition is %+v", c)
	}
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)

	n.ovs.Ctl("add-br", "br-own", "--", "set", "Bridge", "br-own", "datapath_type="+ovndbtest.Datapath(n))
	n.plugTrunk()
	missing[0], missing[1] = "bridged br-own", "dc "+segmentBridge
	n.wantPhysical(missing...)
	n.wantMappings("taken:br-theirs,bridged:br-own,dc:brnic5,shared:br-ex,physnet:br-ex")

	n.stopAgent() // the entries go while no agent runs
	n.setPhysical()
	n.startAgent()
	n.wantPhysical("physnet br-ex")
	n.wantMappings("taken:br-theirs,physnet:br-ex")
	n.until("no bridge of the link", func() error {
		_, left := ovndb.Find(n.rows, &vswitchdb.Bridge{Name: segmentBridge})
		return isTrue(!left, segmentBridge+" is left")
	})
	if _, ok := ovndb.Find(n.rows, &vswitchdb.Bridge{Name: "br-own"}); !ok {
		t.Error("the administrator's bridge is gone")
	}
}

// named returns a name with what it is the name of, or "".
func named(name, what string) string {
	if name == "" {
		return ""
	}
	return what + name
}

// A wrong link or bridge of a physical network changes nothing for the pods of the node, also over a restart of the agent. The condition
// names it. A right one replaces the former bridge, whose link comes back.
func TestAWrongPhysicalNetworkChangesNothing(t *testing.T) {
	n := readyNodeWith(t, nil)
	n.stopAgent()
	n.options = func(o *agent.Options) { o.Mover = n.newMover() }
	n.startAgent()
	n.plugTrunk()
	dc := networkv1alpha1.NodePhysicalNetwork{Name: "dc", Link: segmentNIC}
	n.setPhysical(dc)
	n.wantPhysical("dc " + segmentBridge)
	for _, wrong := range []networkv1alpha1.NodePhysicalNetwork{{Name: "dc", Link: "nic55"}, {Name: "dc", Bridge: "br-none"},
		{Name: "dc", Link: "nic56"}} {
		n.setPhysical(wrong)
		n.wantPhysical(fmt.Sprintf("dc: %s%s: ", named(wrong.Link, "link "), named(wrong.Bridge, "bridge ")))
		c := meta.FindStatusCondition(n.status().Conditions, networkv1alpha1.ConditionPhysicalNetworksReady)
		if p := n.status().PhysicalNetworks[0]; c.Status != metav1.ConditionFalse || p.Bridge != segmentBridge ||
			!strings.Contains(c.Message, cmp.Or(wrong.Link, wrong.Bridge)) || !strings.Contains(c.Message, "brnic5 stays connected") {
			t.Errorf("physical network %+v, condition %+v", p, c)
		}
		if _, ok := ovndb.Find(n.rows, &vswitchdb.Bridge{Name: segmentBridge}); !ok || n.mappings() != "dc:brnic5" {
			t.Fatalf("with %+v the mappings are %q", wrong, n.mappings())
		}
		n.stopAgent()
		n.startAgent()
	}
	n.setPhysical(dc)
	n.wantPhysical("dc " + segmentBridge)
	n.ovs.Ctl("add-br", "br-own", "--", "set", "Bridge", "br-own", "datapath_type="+ovndbtest.Datapath(n))
	n.setPhysical(networkv1alpha1.NodePhysicalNetwork{Name: "dc", Bridge: "br-own"})
	n.wantPhysical("dc br-own")
	n.wantMappings("dc:br-own")
	n.until("no bridge of the former link", func() error {
		_, left := ovndb.Find(n.rows, &vswitchdb.Bridge{Name: segmentBridge})
		return isTrue(!left, segmentBridge+" is left")
	})
}

// A missing NodeNetwork leaves the links where they are. The removal of Weft restores them, and leaves only the mappings
// of other programs.
func TestRemovalRestoresPhysicalLinks(t *testing.T) {
	n := readyNodeWith(t, nil)
	n.stopAgent()
	n.plugTrunk()
	n.must(configure(segmentNIC, "198.51.100.10/24"))
	before := linkOf(n, segmentNIC)
	n.ovs.Ctl("set", "Open_vSwitch", ".", "external_ids:ovn-bridge-mappings=other:br-other")
	// The confirmation of a link with addresses needs an answer; a refusal is one.
	refusing := netip.MustParseAddrPort("127.0.0.1:1")
	n.options = func(o *agent.Options) { o.Mover, o.APIServer = n.newMover(), refusing }
	n.startAgent()
	n.setPhysical(networkv1alpha1.NodePhysicalNetwork{Name: "dc", Link: segmentNIC})
	n.wantPhysical("dc " + segmentBridge)
	n.awaitNodeEvent("UplinkMoved: link nic5 is a port of bridge brnic5")
	if got := addressesOf(segmentBridge); !slices.Equal(got, []string{"198.51.100.10/24"}) {
		t.Errorf("the bridge has %v", got)
	}
	n.must(api.Delete(t.Context(), &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}))
	n.until("no NodeNetwork", func() error { return isTrue(n.status() == nil, "it is there") })
	n.stopAgent() // after the reconciliation that the deletion enqueued
	if _, ok := ovndb.Find(n.rows, &vswitchdb.Bridge{Name: segmentBridge}); !ok || n.mappings() != "other:br-other,dc:brnic5" {
		t.Errorf("without a NodeNetwork the link left its bridge; mappings %s", n.mappings())
	}
	n.must(uninstall.Node{
		OpenVSwitch: n.ovs.Endpoint(), Socket: n.socket(), ConfDir: n.path("net.d"), BinDir: n.path("bin"),
		Mover: n.newMover(), SwitchTimeout: 5 * time.Second, Log: logr.Discard(),
	}.Run(n.Context()))
	n.wantMappings("other:br-other")
	if have := linkOf(n, segmentNIC); have != before {
		t.Errorf("the link is %s, was %s", have, before)
	}
	ovs, _ := ovndb.Only[vswitchdb.OpenvSwitch](n.rows)
	if marked, is := ovs.ExternalIDs["weft.dev/physical-networks"]; is {
		t.Errorf("the mark %q is left", marked)
	}
}
