package agent_test

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

const nextHop = "172.18.0.1"

// giveNIC adds a link to the bridge that has the node's address, and a default route over the bridge.
func (n *node) giveNIC() {
	n.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "nic0"
	nic := netlink.NewVeth(attrs)
	nic.PeerName = "wire0"
	n.must(netlink.LinkAdd(nic))
	n.must(netlink.LinkSetUp(nic))
	n.ovs.Ctl("add-port", "br-ex", "nic0")
	n.giveDefaultRoute()
}

func (n *node) giveDefaultRoute() {
	n.Helper()
	bridge, err := netlink.LinkByName("br-ex")
	n.must(err)
	n.must(netlink.RouteReplace(&netlink.Route{LinkIndex: bridge.Attrs().Index, Gw: net.ParseIP(nextHop)}))
}

// setGateway sets spec.gateway, as the operator does.
func (n *node) setGateway(gateway networkv1alpha1.NodeGateway) {
	n.Helper()
	n.edit(func(spec *networkv1alpha1.NodeNetworkSpec) { spec.Gateway = gateway })
}

var sharedGateway = networkv1alpha1.NodeGateway{
	Mode: networkv1alpha1.GatewayShared, Uplink: networkv1alpha1.UplinkBridge, SNAT: networkv1alpha1.SNATNode,
}

// connectRouter makes ovn-controller connect the bridge. For that, the localnet port may be on the node's own switch.
func (n *node) connectRouter() {
	n.Helper()
	n.central.NB.Ctl("lsp-add", nodeName, "br-ex_"+nodeName, "--", "lsp-set-type", "br-ex_"+nodeName, "localnet",
		"--", "lsp-set-addresses", "br-ex_"+nodeName, "unknown", "--", "lsp-set-options", "br-ex_"+nodeName, "network_name=physnet")
}

// disconnectRouter removes the patch at once. After its start, ovn-controller would first wait for 20 of its iterations.
func (n *node) disconnectRouter() {
	n.Helper()
	port := "br-ex_" + nodeName
	n.central.NB.Ctl("lsp-del", port)
	n.ovs.Ctl("--if-exists", "del-port", "patch-"+port+"-to-br-int", "--", "--if-exists", "del-port", "patch-br-int-to-"+port)
}

// flows returns our flows on br-ex.
func (n *node) flows() (found []string) {
	n.Helper()
	socket := "unix:" + n.ovs.RunDir() + "/br-ex.mgmt"
	for _, line := range strings.Split(ovndbtest.Command(n.T, "ovs-ofctl", "--no-stats", "dump-flows", socket), "\n") {
		if strings.Contains(line, "cookie=0x57ef") {
			found = append(found, line)
		}
	}
	return found
}

func (n *node) awaitFlows(what, want string) {
	n.Helper()
	n.until(what, func() error {
		text := strings.Join(n.flows(), "\n")
		return isTrue(strings.Contains(text, want), text)
	})
}

func (n *node) mappings() string {
	ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](n.rows)
	if !ok {
		return ""
	}
	return ovs.ExternalIDs["ovn-bridge-mappings"]
}

func (n *node) reason(kind, want string) error {
	s := n.status()
	if s == nil {
		return errors.New("no NodeNetwork")
	}
	c := meta.FindStatusCondition(s.Conditions, kind)
	if c == nil || c.Reason != want {
		return fmt.Errorf("condition is %+v", c)
	}
	return nil
}

func gatewayNode(t *testing.T) *node {
	t.Helper()
	n := readyNode(t)
	n.giveNIC()
	n.setGateway(sharedGateway)
	n.connectRouter()
	n.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
	return n
}

// The agent first reports what the operator needs to build the router, and then that the router is connected.
func TestTheGatewayIsReported(t *testing.T) {
	n := readyNode(t)
	n.until("the reason", func() error { return n.reason("GatewayReady", networkv1alpha1.ReasonWaitingForSpec) })
	n.giveNIC()
	n.ovs.Ctl("set", "Open_vSwitch", ".", "external_ids:ovn-bridge-mappings=other:br-other")
	n.setGateway(sharedGateway)
	n.until("the reason", func() error { return n.reason("GatewayReady", networkv1alpha1.ReasonWaitingForTopology) })
	link, err := netlink.LinkByName("br-ex")
	n.must(err)
	want := &networkv1alpha1.NodeGatewayStatus{
		Mode: "Shared", Uplink: "Bridge", Bridge: "br-ex", Interface: "nic0",
		MACAddress: networkv1alpha1.MACAddress(link.Attrs().HardwareAddr.String()),
		Addresses:  []networkv1alpha1.InterfaceAddress{encapIP + "/24"}, NextHops: []networkv1alpha1.IP{nextHop}, SNAT: "Node",
		ProbesAddresses: true,
	}
	if diff := gocmp.Diff(want, n.status().Gateway); diff != "" {
		t.Errorf("status.gateway (-want +got):\n%s", diff)
	}
	if got := n.mappings(); got != "other:br-other,physnet:br-ex" {
		t.Errorf("ovn-bridge-mappings is %s", got)
	}
	n.awaitFlows("flows before there is a router", "priority=10,dl_src="+link.Attrs().HardwareAddr.String()+" actions=drop")
	n.connectRouter()
	n.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
	n.awaitFlows("the router's flows", "ct_state=+est+trk,ct_mark=0x1,ip actions=output:")
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
}

// The reported gateway follows the host's addresses and routes.
func TestTheGatewayFollowsTheHost(t *testing.T) {
	n := gatewayNode(t)
	link, err := netlink.LinkByName("br-ex")
	n.must(err)
	n.must(netlink.AddrAdd(link, &netlink.Addr{IPNet: mustIPNet("fd00:18::11/64"), Flags: 0x02}))
	n.must(netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP("172.18.0.254")}))
	n.until("the status", func() error {
		g := n.status().Gateway
		follows := len(g.Addresses) == 2 && g.Addresses[1] == "fd00:18::11/64" && g.NextHops[0] == "172.18.0.254"
		return isTrue(follows, fmt.Sprint(g))
	})
}

// The agent writes the flows again after a restart of ovs-vswitchd, which loses them.
func TestTheFlowsComeBack(t *testing.T) {
	n := gatewayNode(t)
	before := len(n.flows())
	n.ovs.KillSwitch()
	n.until("no flows", func() error { return n.reason("GatewayReady", networkv1alpha1.ReasonDatabaseUnavailable) })
	n.ovs.RunSwitch()
	n.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
	n.until("the flows", func() error { return isTrue(len(n.flows()) == before, fmt.Sprint(n.flows())) })
}

// An agent that restarts writes nothing if the gateway has not changed.
func TestAnUnchangedGatewayWritesNothing(t *testing.T) {
	n := gatewayNode(t)
	n.stopAgent()
	before, flows := n.counter.count("Open_vSwitch"), n.flows()
	nn := &networkv1alpha1.NodeNetwork{}
	n.must(api.Get(t.Context(), types.NamespacedName{Name: nodeName}, nn))
	n.startAgent()
	n.until("STATUS", n.ready)
	after := &networkv1alpha1.NodeNetwork{}
	n.must(api.Get(t.Context(), types.NamespacedName{Name: nodeName}, after))
	if got := n.counter.count("Open_vSwitch"); got != before || after.ResourceVersion != nn.ResourceVersion {
		t.Errorf("%d transactions in Open vSwitch, status: %s", got-before, gocmp.Diff(nn.Status, after.Status))
	}
	if diff := gocmp.Diff(flows, n.flows()); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
}

// In Local mode the bridge belongs to the host alone.
func TestTheModeChanges(t *testing.T) {
	n := gatewayNode(t)
	n.setGateway(networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayLocal, SNAT: networkv1alpha1.SNATNode})
	n.until("the mode", func() error {
		g := n.status().Gateway
		return isTrue(g != nil && g.Mode == "Local" && g.Bridge == "" && g.Interface == "br-ex", fmt.Sprint(g))
	})
	n.until("no mapping", func() error { return isTrue(n.mappings() == "", n.mappings()) })
	if len(n.flows()) == 0 {
		t.Error("the flows were removed before the patch, so that the bridge learns the router's MAC at the patch")
	}
	n.disconnectRouter()
	n.until("no flows", func() error { return isTrue(len(n.flows()) == 0, fmt.Sprint(n.flows())) })
	n.setGateway(sharedGateway)
	n.connectRouter()
	n.awaitFlows("the router's flows", "ct_state=+est+trk,ct_mark=0x1,ip actions=output:")
}

// A node whose new gateway cannot be built keeps its former gateway in the status and on the host, also over a restart of the
// agent, and names the field and the link.
func TestAWrongGatewayChangesNothing(t *testing.T) {
	n := gatewayNode(t)
	n.options = func(o *agent.Options) { o.Mover = n.newMover() }
	n.stopAgent()
	n.startAgent()
	n.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
	gateway, mappings, flows, rules := n.status().Gateway, n.mappings(), n.flows(), n.ruleset()
	const shared, local, apart = networkv1alpha1.GatewayShared, networkv1alpha1.GatewayLocal, networkv1alpha1.UplinkInterface
	for name, wrong := range map[string]struct {
		gateway      networkv1alpha1.NodeGateway
		reason, says string
	}{
		"no such link": {networkv1alpha1.NodeGateway{Mode: shared, Interface: "eth9"}, networkv1alpha1.ReasonNoUplink,
			"spec.gateway.interface: link eth9: Link not found"},
		"no such link, Local": {networkv1alpha1.NodeGateway{Mode: local, Interface: "eth9"}, networkv1alpha1.ReasonNoUplink,
			"spec.gateway.interface: link eth9: Link not found"},
		"no such link, Interface": {networkv1alpha1.NodeGateway{Mode: shared, Uplink: apart, Interface: "eth9"},
			networkv1alpha1.ReasonNoUplink, "spec.gateway.interface: link eth9: Link not found"},
		"a link that waits for its turn": {networkv1alpha1.NodeGateway{Mode: shared, Interface: "wire0"},
			networkv1alpha1.ReasonUplinkWaiting, "spec.gateway.interface: link wire0: it waits for its turn"},
		"a link that cannot be moved": {networkv1alpha1.NodeGateway{Mode: shared, Interface: "lo", Move: "lo Bridge"},
			networkv1alpha1.ReasonUplinkRefused, "spec.gateway.interface: link lo: the link is not moved"},
		"a link without an address": {networkv1alpha1.NodeGateway{Mode: local, Interface: "wire0"}, networkv1alpha1.ReasonNoUplink,
			"spec.gateway.interface: link wire0 has no address"},
		"Weft's own link": {networkv1alpha1.NodeGateway{Mode: local, Interface: "ovn-k8s-mp0"}, networkv1alpha1.ReasonUplinkRefused,
			"ovn-k8s-mp0 is Weft's own link"},
		"br-int": {networkv1alpha1.NodeGateway{Mode: shared, Interface: "br-int"}, networkv1alpha1.ReasonUplinkRefused,
			"br-int is Weft's own link"},
		"a link of the host's for OVN alone": {networkv1alpha1.NodeGateway{Mode: shared, Uplink: apart},
			networkv1alpha1.ReasonUplinkRefused, "spec.gateway.uplink: the link is not moved: bridge br-ex is the host's too"},
		"a next hop elsewhere": {networkv1alpha1.NodeGateway{Mode: shared, NextHops: []networkv1alpha1.IP{"203.0.113.1"}},
			networkv1alpha1.ReasonNextHopsUnusable, "spec.gateway.nextHops[0] 203.0.113.1: it is in no subnet of link br-ex"},
		"the node as its next hop": {networkv1alpha1.NodeGateway{Mode: shared, NextHops: []networkv1alpha1.IP{encapIP}},
			networkv1alpha1.ReasonNextHopsUnusable, "it is an address of link br-ex itself"},
	} {
		t.Run(name, func(t *testing.T) {
			same := func(when string) {
				t.Helper()
				n.until(when, func() error {
					s := n.status()
					c := meta.FindStatusCondition(s.Conditions, networkv1alpha1.ConditionGatewayReady)
					return isTrue(c.Reason == wrong.reason && strings.Contains(c.Message, wrong.says), fmt.Sprintf("condition is %+v", c))
				})
				diff := gocmp.Diff(gateway, n.status().Gateway) + gocmp.Diff(mappings, n.mappings()) + gocmp.Diff(flows, n.flows()) +
					gocmp.Diff(rules, n.ruleset())
				if diff != "" {
					t.Errorf("%s (-before +after):\n%s", when, diff)
				}
			}
			wrong.gateway.SNAT, wrong.gateway.Uplink = networkv1alpha1.SNATNode, cmp.Or(wrong.gateway.Uplink, networkv1alpha1.UplinkBridge)
			n.setGateway(wrong.gateway)
			same("after the change")
			n.stopAgent()
			n.startAgent()
			n.until("STATUS", n.ready)
			same("after a restart of the agent")
			n.setGateway(sharedGateway)
			n.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
		})
	}
}

// A changed next hop that does not answer is not used while the former one answers, and the condition names both. A next hop that answers
// is used, and so is a silent one in the place of a silent one, or of a gateway that did not work before.
func TestASilentNextHopIsNotUsed(t *testing.T) {
	s := newSegmented(t)
	before, flows := s.status().Gateway, s.flows()
	changed := func(unconfirmed bool, hops ...networkv1alpha1.IP) {
		t.Helper()
		gateway := sharedGateway
		gateway.NextHops, gateway.Unconfirmed = hops, unconfirmed
		s.setGateway(gateway)
	}
	used := func(hops ...networkv1alpha1.IP) {
		t.Helper()
		s.until("the next hops", func() error {
			return isTrue(slices.Equal(s.status().Gateway.NextHops, hops), fmt.Sprint(s.status().Gateway.NextHops))
		})
		s.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
	}
	for hop, text := range map[networkv1alpha1.IP]string{
		"172.18.0.9": "next hop 172.18.0.9 does not answer on link br-ex, and the former next hop 172.18.0.1 on link br-ex does",
		"fd00:18::9": "next hop fd00:18::9 does not answer on link br-ex, and the former next hop fd00:18::1 on link br-ex does",
	} {
		changed(true, hop)
		s.until("the condition", func() error {
			c := meta.FindStatusCondition(s.status().Conditions, networkv1alpha1.ConditionGatewayReady)
			return isTrue(c.Reason == networkv1alpha1.ReasonNextHopsUnusable && strings.Contains(c.Message, "spec.gateway.nextHops: "+text),
				fmt.Sprintf("condition is %+v", c))
		})
		if diff := gocmp.Diff(before, s.status().Gateway) + gocmp.Diff(flows, s.flows()); diff != "" {
			t.Errorf("next hop %s (-before +after):\n%s", hop, diff)
		}
	}
	s.must(inNetNS(s.outside, func() error { return configure(outsideLink, "172.18.0.8/24") }))
	changed(true, "172.18.0.8")
	used("172.18.0.8", "fd00:18::1")
	changed(false, "172.18.0.9")
	used("172.18.0.9", "fd00:18::1")
	changed(true, "172.18.0.7")
	used("172.18.0.7", "fd00:18::1")
}

// A recreated NodeNetwork has no report, and its gateway is found by the mapping in Open vSwitch. A gateway whose bridge is gone is
// not reported.
func TestAFormerGatewayIsFoundOnTheHost(t *testing.T) {
	n := gatewayNode(t)
	gateway := n.status().Gateway
	n.stopAgent()
	nn := &networkv1alpha1.NodeNetwork{}
	n.must(api.Get(t.Context(), types.NamespacedName{Name: nodeName}, nn))
	nn.Status.Gateway = nil
	n.must(api.Status().Update(t.Context(), nn))
	nn.Spec.Gateway.Interface = "eth9"
	n.must(api.Update(t.Context(), nn))
	n.startAgent()
	n.until("the former gateway", func() error {
		return isTrue(gocmp.Equal(n.status().Gateway, gateway), fmt.Sprintf("%+v", n.status().Gateway))
	})
	n.disconnectRouter()
	n.ovs.Ctl("del-br", "br-ex")
	n.until("the status", func() error { return isTrue(n.status().Gateway == nil, "a gateway is offered") })
}

// The condition reports a gateway interface that is not on a bridge, and the node stays ready.
func TestALinkThatIsNoBridge(t *testing.T) {
	n := gatewayNode(t)
	n.setGateway(networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayShared, Interface: "wire0"})
	n.until("the reason", func() error { return n.reason("GatewayReady", networkv1alpha1.ReasonNoUplink) })
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	// The name of a bridge's port selects its bridge.
	n.setGateway(networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayShared, Interface: "nic0"})
	n.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
}
