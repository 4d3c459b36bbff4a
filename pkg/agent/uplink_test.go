package agent_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/agent/uninstall"
	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

const (
	plainNIC  = "nic9"
	nicBridge = "brnic9"
	nicMove   = "nic9 Bridge"

	// plainLayer3 is the reported addresses and next hops of plainNIC.
	plainLayer3 = "[198.51.100.10/24 2001:db8:9::10/64] [198.51.100.1 2001:db8:9::1]"
)

// newMover returns the agent's mover, with a guard that exits at once. Package uplink tests the real guard.
func (n *node) newMover() *uplink.Mover {
	return uplink.New(uplink.Config{
		Dir: n.path("state"), OpenVSwitch: n.ovs.Endpoint(), Datapath: agent.Datapath(), Log: logr.Discard(),
		ProbeTimeout: 3 * time.Second, GuardCommand: []string{"/bin/true"},
	})
}

// plugIn gives the node a link as a host has, with a router behind it, and returns the router's namespace.
func (n *node) plugIn() (router ns.NetNS) {
	n.Helper()
	router, err := ns.GetNS(n.newNetNS("router"))
	n.must(err)
	n.Cleanup(func() { router.Close() })
	n.must(netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: plainNIC, MTU: 1450}, PeerName: "wire9", PeerMTU: 1450,
		PeerNamespace: netlink.NsFd(int(router.Fd())),
	}))
	n.must(configure(plainNIC, "198.51.100.10/24", "2001:db8:9::10/64"))
	n.must(router.Do(func(ns.NetNS) error { return configure("wire9", "198.51.100.1/24", "2001:db8:9::1/64") }))
	link, err := netlink.LinkByName(plainNIC)
	n.must(err)
	for _, hop := range []string{"198.51.100.1", "2001:db8:9::1"} {
		n.must(netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(hop)}))
	}
	return router
}

func configure(name string, addresses ...string) error {
	link, err := netlink.LinkByName(name)
	for _, text := range addresses {
		if err != nil {
			return err
		}
		var address *netlink.Addr
		if address, err = netlink.ParseAddr(text); err == nil {
			if address.IP.To4() == nil {
				address.Flags = unix.IFA_F_NODAD
			}
			err = netlink.AddrReplace(link, address)
		}
	}
	return errors.Join(err, netlink.LinkSetUp(link))
}

// addressesOf returns a link's global addresses.
func addressesOf(name string) (found []string) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return []string{err.Error()}
	}
	list, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return []string{err.Error()}
	}
	for _, a := range list {
		if a.Scope == int(netlink.SCOPE_UNIVERSE) {
			found = append(found, a.IPNet.String())
		}
	}
	slices.Sort(found)
	return found
}

// nodeEvents returns the reasons and notes of events on the Node.
func (n *node) nodeEvents() (reasons []string) {
	n.Helper()
	var list eventsv1.EventList
	n.must(api.List(n.Context(), &list, client.InNamespace("default")))
	for _, e := range list.Items {
		if e.Regarding.Kind == "Node" && e.Regarding.Name == nodeName {
			reasons = append(reasons, e.Reason+": "+e.Note)
		}
	}
	return reasons
}

func (n *node) awaitNodeEvent(text string) {
	n.Helper()
	n.until("an event on the Node: "+text, func() error {
		events := n.nodeEvents()
		found := slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, text) })
		return isTrue(found, fmt.Sprint(events))
	})
}

// The agent moves a plain link onto a bridge and reports the bridge. The removal of Weft restores the link.
func TestAPlainLinkIsMovedOntoABridge(t *testing.T) {
	n := readyNodeWith(t, nil)
	n.stopAgent()
	n.plugIn()
	before := addressesOf(plainNIC)
	n.options = func(o *agent.Options) { o.Mover = n.newMover() }
	n.startAgent()
	gateway := networkv1alpha1.NodeGateway{
		Mode: networkv1alpha1.GatewayShared, Uplink: networkv1alpha1.UplinkBridge, SNAT: networkv1alpha1.SNATNode,
		Interface: plainNIC,
	}
	n.setGateway(gateway)
	n.until("the request for the node's turn", func() error {
		if err := n.reason(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonUplinkWaiting); err != nil {
			return err
		}
		return isTrue(n.status().Move == nicMove, n.status().Move)
	})
	if got := addressesOf(plainNIC); !slices.Equal(got, before) {
		t.Errorf("before its turn the link has %v", got)
	}
	gateway.Move = nicMove
	n.setGateway(gateway)
	n.until("the bridge in the status", func() error {
		s := n.status()
		if s == nil || s.Gateway == nil {
			return fmt.Errorf("status is %+v", s)
		}
		g := s.Gateway
		return isTrue(g.Bridge == nicBridge && g.Interface == plainNIC && fmt.Sprint(g.Addresses, g.NextHops) == plainLayer3,
			fmt.Sprintf("%+v", g))
	})
	if got := addressesOf(nicBridge); !slices.Equal(got, before) || len(addressesOf(plainNIC)) > 0 {
		t.Errorf("the bridge has %v, the link %v", got, addressesOf(plainNIC))
	}
	n.awaitNodeEvent("UplinkMoved: link nic9 is a port of bridge brnic9")
	n.until("the end of the request", func() error { return isTrue(n.status().Move == "", n.status().Move) })

	gateway.Move = "" // the next move needs no permission, because the disconnected node could not get one
	n.setGateway(gateway)

	// Someone removes the port, which disconnects the node. Open vSwitch does the same when it starts and drops transient
	// ports.
	n.ovs.Ctl("--", "del-port", nicBridge, plainNIC, "--", "set", "Open_vSwitch", ".", "external_ids:cut=true")
	n.until("the restored port", func() error {
		ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](n.rows)
		row, isPort := ovndb.Find(n.rows, &vswitchdb.Interface{Name: plainNIC})
		restored := isPort && row.Ofport != nil && *row.Ofport > 0 && slices.Equal(addressesOf(nicBridge), before)
		return isTrue(ok && ovs.ExternalIDs["cut"] != "" && restored, fmt.Sprint(row))
	})

	n.stopAgent()
	n.must(uninstall.Node{
		OpenVSwitch: n.ovs.Endpoint(), Socket: n.socket(), ConfDir: n.path("net.d"), BinDir: n.path("bin"),
		Mover: n.newMover(), SwitchTimeout: 5 * time.Second, Log: logr.Discard(),
	}.Run(n.Context()))
	if got := addressesOf(plainNIC); !slices.Equal(got, before) {
		t.Errorf("after the removal the link has %v", got)
	}
	if _, err := netlink.LinkByName(nicBridge); err == nil {
		t.Error("the bridge is left")
	}
}

// A link that OVN had alone is restored when the gateway's uplink changes to Bridge.
func TestALinkThatOVNHadAloneComesBack(t *testing.T) {
	n := readyNodeWith(t, nil)
	n.stopAgent()
	n.plugIn()
	before := addressesOf(plainNIC)
	link, err := netlink.LinkByName(plainNIC)
	n.must(err)
	hops := []networkv1alpha1.IP{"198.51.100.1", "2001:db8:9::1"}
	for _, hop := range hops { // the host's default route must be over another link
		n.must(netlink.RouteDel(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(string(hop))}))
	}
	n.options = func(o *agent.Options) { o.Mover = n.newMover() }
	n.startAgent()
	gateway := networkv1alpha1.NodeGateway{
		Mode: networkv1alpha1.GatewayShared, SNAT: networkv1alpha1.SNATNode, Interface: plainNIC, NextHops: hops,
	}
	for _, step := range []struct {
		uplink networkv1alpha1.UplinkType
		hosts  []string // addresses of the bridge
	}{{networkv1alpha1.UplinkInterface, nil}, {networkv1alpha1.UplinkBridge, before}} {
		gateway.Uplink, gateway.Move = step.uplink, fmt.Sprint(plainNIC, " ", step.uplink)
		n.setGateway(gateway)
		n.until("the link for "+string(step.uplink), func() error {
			s := n.status()
			if s == nil || s.Gateway == nil || s.Gateway.Uplink != step.uplink {
				return fmt.Errorf("status is %+v", s)
			}
			g := s.Gateway
			moved := g.Bridge == nicBridge && g.Interface == plainNIC && fmt.Sprint(g.Addresses, g.NextHops) == plainLayer3 &&
				len(addressesOf(plainNIC)) == 0 && slices.Equal(addressesOf(nicBridge), step.hosts)
			return isTrue(moved, fmt.Sprintf("%+v; the bridge has %v", g, addressesOf(nicBridge)))
		})
	}

	gateway.Uplink = networkv1alpha1.UplinkInterface // is refused, because the host may need the bridge's addresses
	n.setGateway(gateway)
	n.until("a refusal", func() error {
		return n.reason(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonUplinkRefused)
	})
	if got := addressesOf(nicBridge); !slices.Equal(got, before) {
		t.Errorf("the bridge has %v; want %v", got, before)
	}
}

// The status has the reason why a link cannot move. If the router stops answering during a move, the link is restored,
// and the status has that reason.
func TestALinkThatCannotMoveSaysWhy(t *testing.T) {
	n := readyNodeWith(t, nil)
	n.stopAgent()
	router := n.plugIn()
	before := addressesOf(plainNIC)
	link, err := netlink.LinkByName(plainNIC)
	n.must(err)
	lease, err := netlink.ParseAddr("198.51.100.77/24")
	n.must(err)
	lease.ValidLft, lease.PreferedLft = 3600, 3600
	n.must(netlink.AddrAdd(link, lease))

	// The mover logs the beginning of a move after it has probed the router and before it changes anything.
	silenced := false
	silence := funcr.New(func(_, args string) {
		if !silenced && strings.Contains(args, "moving a link onto its bridge") {
			silenced = true
			n.must(router.Do(func(ns.NetNS) error {
				wire, err := netlink.LinkByName("wire9")
				return errors.Join(err, netlink.LinkSetARPOff(wire), netlink.AddrDel(wire, mustAddr("2001:db8:9::1/64")))
			}))
		}
	}, funcr.Options{})
	n.options = func(o *agent.Options) {
		o.Mover = uplink.New(uplink.Config{
			Dir: n.path("state"), OpenVSwitch: n.ovs.Endpoint(), Datapath: agent.Datapath(), Log: silence,
			ProbeTimeout: 2 * time.Second, GuardCommand: []string{"/bin/true"},
		})
	}
	n.startAgent()
	gateway := networkv1alpha1.NodeGateway{
		Mode: networkv1alpha1.GatewayShared, Uplink: networkv1alpha1.UplinkBridge, SNAT: networkv1alpha1.SNATNode,
		Interface: plainNIC, Move: nicMove,
	}
	n.setGateway(gateway)
	n.until("a refusal", func() error {
		return n.reason(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonUplinkRefused)
	})

	n.must(netlink.AddrDel(link, lease))
	gateway.NextHops = []networkv1alpha1.IP{"198.51.100.1"}
	n.setGateway(gateway) // another request, which is tried at once
	n.until("a rollback", func() error {
		return n.reason(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonUplinkRolledBack)
	})
	n.awaitNodeEvent("gateway 198.51.100.1")
	if got := addressesOf(plainNIC); !slices.Equal(got, before) {
		t.Errorf("after the rollback the link has %v; want %v", got, before)
	}
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
}

func mustAddr(text string) *netlink.Addr {
	address, err := netlink.ParseAddr(text)
	if err != nil {
		panic(err)
	}
	return address
}

// While ovs-vswitchd does not run, the userspace datapath forwards nothing: the link has its addresses, the status says why, and the
// node's gateway stays. The link is moved again without a permission.
func TestALinkIsMovedAgainWhenOpenVSwitchIsBack(t *testing.T) {
	if agent.Datapath() != networkv1alpha1.DatapathNetdev {
		t.Skip("the kernel's datapath forwards without ovs-vswitchd")
	}
	n := readyNodeWith(t, nil)
	n.stopAgent()
	n.plugIn()
	before := addressesOf(plainNIC)
	n.options = func(o *agent.Options) {
		o.Mover = uplink.New(uplink.Config{
			Dir: n.path("state"), OpenVSwitch: n.ovs.Endpoint(), Datapath: agent.Datapath(), Log: logr.Discard(),
			ProbeTimeout: 3 * time.Second, AwayGrace: time.Second, GuardCommand: []string{"/bin/true"},
		})
		go o.Mover.Watch(n.Context())
	}
	n.startAgent()
	gateway := networkv1alpha1.NodeGateway{
		Mode: networkv1alpha1.GatewayShared, Uplink: networkv1alpha1.UplinkBridge, SNAT: networkv1alpha1.SNATNode,
		Interface: plainNIC, Move: nicMove,
	}
	n.setGateway(gateway)
	isMoved := func() error {
		s := n.status()
		moved := s != nil && s.Gateway != nil && s.Gateway.Bridge == nicBridge && s.Move == "" && slices.Equal(addressesOf(nicBridge), before)
		return isTrue(moved, fmt.Sprintf("status %+v, addresses of the bridge %v", s, addressesOf(nicBridge)))
	}
	n.until("the move", isMoved)
	gateway.Move = ""
	n.setGateway(gateway)

	for what, test := range map[string]struct {
		reason     string
		end, begin func()
	}{
		"ovs-vswitchd": {networkv1alpha1.ReasonSwitchUnavailable, n.ovs.KillSwitch, n.ovs.RunSwitch},
		"both daemons": {networkv1alpha1.ReasonDatabaseUnavailable, func() { n.ovs.KillSwitch(); n.ovs.Kill() },
			func() { n.ovs.Run(); n.ovs.RunSwitch() }},
	} {
		test.end()
		n.until("the addresses at the link without "+what, func() error {
			if got := addressesOf(plainNIC); !slices.Equal(got, before) {
				return fmt.Errorf("the link has %v", got)
			}
			return n.reason(networkv1alpha1.ConditionGatewayReady, test.reason)
		})
		if s := n.status(); s.Gateway == nil || s.Gateway.Bridge != nicBridge || s.Move != "" {
			t.Errorf("without %s, the status is %+v", what, s)
		}
		n.awaitNodeEvent("UplinkWithoutSwitch: link nic9 has the addresses")
		test.begin()
		n.until("the move after "+what+" is back", func() error {
			if err := isMoved(); err != nil {
				return err
			}
			return n.reason(networkv1alpha1.ConditionGatewayReady, networkv1alpha1.ReasonWaitingForTopology)
		})
		if got := addressesOf(plainNIC); len(got) > 0 {
			t.Errorf("after the move, the link has %v", got)
		}
	}
}
