package agent_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// awaitMessage waits until a condition is False with a text in its message.
func (n *node) awaitMessage(kind, text string) {
	n.Helper()
	n.until("the condition", func() error {
		c := meta.FindStatusCondition(n.status().Conditions, kind)
		return isTrue(c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, text), fmt.Sprintf("condition is %+v", c))
	})
}

// bridgeFlows compares the flows of br-ex with the flows at the test's start.
type bridgeFlows struct {
	*node
	before []string
}

func newBridgeFlows(t *testing.T) bridgeFlows {
	t.Helper()
	n := gatewayNode(t)
	return bridgeFlows{n, n.flows()}
}

func (b bridgeFlows) ofctl(command string, args ...string) {
	b.Helper()
	ovndbtest.Command(b.T, "ovs-ofctl", append([]string{command, "unix:" + b.ovs.RunDir() + "/br-ex.mgmt"}, args...)...)
}

func (b bridgeFlows) repaired(what string) {
	b.Helper()
	b.until(what, func() error {
		after := b.flows()
		slices.Sort(b.before)
		slices.Sort(after)
		diff := gocmp.Diff(b.before, after)
		return isTrue(diff == "", diff)
	})
}

// The agent repairs the external bridge's flows at once, whatever another program does to them.
func TestTheBridgesFlowsAreRepaired(t *testing.T) {
	b := newBridgeFlows(t)
	b.ofctl("del-flows")
	b.repaired("all flows")
	b.ofctl("del-flows", "--strict", "priority=20,in_port=LOCAL")
	b.repaired("a deleted flow")
	b.ofctl("mod-flows", "--strict", "priority=20,in_port=LOCAL,actions=drop")
	b.repaired("a changed flow")
	b.ofctl("add-flow", "cookie=0x1,priority=20,in_port=LOCAL,actions=drop")
	b.repaired("a replaced flow")
	b.ofctl("add-flow", "cookie=0x57ef000000000001,priority=999,actions=drop")
	b.repaired("a flow with Weft's cookie")
}

// GatewayReady names a bridge whose flows cannot be repaired, and the agent retries. It follows the bridge again after a restart of
// ovs-vswitchd.
func TestABridgeThatCannotBeRepaired(t *testing.T) {
	b := newBridgeFlows(t)
	b.ovs.Ctl("set", "Bridge", "br-ex", "protocols=OpenFlow10") // has no bundles
	b.ofctl("del-flows")
	b.ovs.Ctl("set", "Bridge", "br-ex", "external_ids:seen=again")
	b.awaitMessage(networkv1alpha1.ConditionGatewayReady, "bridge br-ex")
	b.ovs.Ctl("clear", "Bridge", "br-ex", "protocols")
	b.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)

	b.ovs.KillSwitch()
	b.until("no flows", func() error { return b.reason("GatewayReady", networkv1alpha1.ReasonDatabaseUnavailable) })
	b.ovs.RunSwitch()
	b.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
	b.ofctl("del-flows")
	b.repaired("all flows after the restart")
}

// The management port's settings are repaired at once.
func TestTheManagementPortIsRepaired(t *testing.T) {
	n := readyNode(t)
	n.awaitHost()
	link, err := netlink.LinkByName(mp0)
	n.must(err)
	before := link.Attrs()
	for what, spoil := range map[string]func(netlink.Link) error{
		"state": netlink.LinkSetDown,
		"MTU":   func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1300) },
		"MAC":   func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, net.HardwareAddr{2, 0, 0, 0, 0, 9}) },
		"routers": func(netlink.Link) error {
			return os.WriteFile("/proc/sys/net/ipv6/conf/"+mp0+"/accept_ra", []byte("2"), 0)
		},
	} {
		link, err := netlink.LinkByName(mp0)
		n.must(err)
		n.must(spoil(link))
		if what == "routers" { // of which the kernel sends no message
			n.must(netlink.LinkSetMTU(link, 1300))
		}
		n.until(what, func() error {
			link, err := netlink.LinkByName(mp0)
			if err != nil {
				return err
			}
			ra, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + mp0 + "/accept_ra")
			now := link.Attrs()
			repaired := now.Flags&net.FlagUp != 0 && now.MTU == before.MTU && now.HardwareAddr.String() == before.HardwareAddr.String() &&
				strings.TrimSpace(string(ra)) == "0"
			return errors.Join(err, isTrue(repaired, fmt.Sprintf("%+v, accept_ra %s", now, ra)))
		})
		n.awaitHost()
	}
}

// A management port that is renamed or deleted is made again.
func TestAManagementPortThatIsGoneComesBack(t *testing.T) {
	for name, spoil := range map[string]func(netlink.Link) error{
		"renamed": func(l netlink.Link) error {
			return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, "other0"))
		},
		"deleted": netlink.LinkDel,
	} {
		t.Run(name, func(t *testing.T) {
			n := readyNode(t)
			n.awaitHost()
			link, err := netlink.LinkByName(mp0)
			n.must(err)
			if err := spoil(link); err != nil {
				t.Skip(err) // the kernel's datapath lets nobody delete it
			}
			n.awaitHost()
			n.awaitCondition(networkv1alpha1.ConditionManagementPortReady, metav1.ConditionTrue)
		})
	}
}

// egressNode returns a node in Local mode whose router carries an egress IP of the network of another link of the host.
func egressNode(t *testing.T) *node {
	t.Helper()
	return egressNodeWith(t, nil)
}

func egressNodeWith(t *testing.T, options func(*agent.Options)) *node {
	t.Helper()
	n := readyNodeWith(t, options)
	n.giveDefaultRoute()
	far := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "far0"}, PeerName: "far1"}
	n.must(netlink.LinkAdd(far))
	n.must(netlink.AddrAdd(far, &netlink.Addr{IPNet: mustIPNet("192.0.2.1/24")}))
	n.must(netlink.LinkSetUp(far))
	n.central.NB.Ctl("lsp-add", nodeName, names.EgressPort(nodeName), "--", "lsp-set-addresses", names.EgressPort(nodeName), "unknown",
		"--", "lsp-set-options", names.EgressPort(nodeName), "requested-chassis="+nodeName)
	n.central.NB.Ctl("create", "Address_Set", "name="+names.EgressAddresses(nodeName, "IPv4"), "addresses=192.0.2.7")
	n.setGateway(networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayLocal, SNAT: networkv1alpha1.SNATNode})
	n.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
	n.until("the host's way", func() error { return n.egressIs(true) })
	return n
}

// egressIs returns an error unless the host has all that leads the egress IP outside.
func (n *node) egressIs(complete bool) error {
	n.Helper()
	var have []string
	rules, err := netlink.RuleList(netlink.FAMILY_V4)
	n.must(err)
	for _, r := range rules {
		if r.Priority == 8400 && r.Src.String() == "192.0.2.7/32" && r.Table > 840000 {
			have = append(have, "rule")
		}
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: 84, Table: unix.RT_TABLE_UNSPEC},
		netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	n.must(err)
	for _, r := range routes {
		switch {
		case r.Table > 840000 && r.Type == unix.RTN_UNREACHABLE:
			have = append(have, "unreachable")
		case r.Table > 840000:
			have = append(have, "subnet")
		case r.Dst != nil && r.Dst.String() == "192.0.2.7/32":
			have = append(have, "egress")
		}
	}
	far, err := netlink.LinkByName("far0")
	n.must(err)
	proxies, err := netlink.NeighProxyList(far.Attrs().Index, netlink.FAMILY_V4)
	n.must(err)
	if slices.ContainsFunc(proxies, func(p netlink.Neigh) bool { return p.IP.String() == "192.0.2.7" }) {
		have = append(have, "proxy")
	}
	forwards, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
	n.must(err)
	if strings.TrimSpace(string(forwards)) == "1" {
		have = append(have, "forwarding")
	}
	slices.Sort(have)
	want := []string{"egress", "forwarding", "proxy", "rule", "subnet", "unreachable"}
	return isTrue(slices.Equal(have, want) == complete, fmt.Sprint("the host has ", have))
}

// What leads an egress IP outside in Local mode is repaired at once.
func TestTheWayOfEgressIPsIsRepaired(t *testing.T) {
	n := egressNode(t)
	far, err := netlink.LinkByName("far0")
	n.must(err)
	repaired := func(what string) {
		t.Helper()
		n.until(what, func() error { return n.egressIs(true) })
	}
	flushRules := func() {
		t.Helper()
		rules, err := netlink.RuleList(netlink.FAMILY_V4)
		n.must(err)
		for i := range rules {
			if rules[i].Priority == 8400 {
				n.must(netlink.RuleDel(&rules[i]))
			}
		}
	}
	flushRules()
	repaired("the rules")
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: 84, Table: unix.RT_TABLE_UNSPEC},
		netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	n.must(err)
	for i := range routes {
		if routes[i].Table > 840000 || routes[i].Dst.String() == "192.0.2.7/32" {
			n.must(netlink.RouteDel(&routes[i]))
			repaired(routes[i].String())
		}
	}
	n.must(os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0))
	repaired("forwarding")
	n.must(netlink.LinkSetDown(far))
	n.must(netlink.LinkSetUp(far))
	repaired("a link that was down")
	egress, err := netlink.LinkByName(names.EgressInterface)
	n.must(err)
	n.must(netlink.LinkSetDown(egress))
	repaired("the host's port to the router")
}

// The host's end of a pod's interface is repaired at once.
func TestALinkOfAPodIsRepaired(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	n.givePort(web)
	name := n.add(web).Interfaces[0].Name
	link, err := netlink.LinkByName(name)
	n.must(err)
	mtu := link.Attrs().MTU
	for what, spoil := range map[string]func() error{
		"state": func() error { return netlink.LinkSetDown(link) },
		"MTU":   func() error { return netlink.LinkSetMTU(link, mtu-100) },
	} {
		n.must(spoil())
		n.until(what, func() error {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			now := link.Attrs()
			return isTrue(now.Flags&net.FlagUp != 0 && now.MTU == mtu, fmt.Sprintf("%+v", now))
		})
		n.wantTraffic(web)
	}
}

// What causes no message is repaired at the agent's next check of the node.
func TestTheNodeIsComparedAtIntervals(t *testing.T) {
	n := readyNodeWith(t, func(o *agent.Options) { o.CheckInterval = time.Second })
	n.awaitHost()
	routers := "/proc/sys/net/ipv6/conf/" + mp0 + "/accept_ra"
	n.must(os.WriteFile(routers, []byte("2"), 0))
	n.until("accept_ra", func() error {
		text, err := os.ReadFile(routers)
		return errors.Join(err, isTrue(strings.TrimSpace(string(text)) == "0", string(text)))
	})
}

// Proxied neighbours of egress IPs are repaired at the agent's next check of the node.
func TestProxiedNeighboursAreRepaired(t *testing.T) {
	n := egressNodeWith(t, func(o *agent.Options) { o.CheckInterval = time.Second })
	far, err := netlink.LinkByName("far0")
	n.must(err)
	n.must(netlink.NeighDel(&netlink.Neigh{LinkIndex: far.Attrs().Index, Family: unix.AF_INET, Flags: netlink.NTF_PROXY,
		IP: net.ParseIP("192.0.2.7")}))
	n.until("the proxied neighbour", func() error { return n.egressIs(true) })
}

// The socket of the agent, its CNI configuration and its plugin are repaired at once.
func TestTheFilesOfTheAgentAreRepaired(t *testing.T) {
	n := readyNode(t)
	n.must(os.Remove(n.socket()))
	n.until("the socket", n.ready)
	for path, mode := range map[string]os.FileMode{n.path("net.d", "05-weft.conflist"): 0o644, n.path("bin", "weft-cni"): 0o755} {
		before, err := os.ReadFile(path)
		n.must(err)
		for what, spoil := range map[string]func() error{
			"deleted": func() error { return os.Remove(path) },
			"changed": func() error { return os.WriteFile(path, []byte("{}"), mode) },
			"mode":    func() error { return os.Chmod(path, 0o600) },
		} {
			n.must(spoil())
			n.until(path+": "+what, func() error {
				after, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				info, err := os.Stat(path)
				repaired := err == nil && info.Mode() == mode && string(after) == string(before)
				return errors.Join(err, isTrue(repaired, fmt.Sprint(info, string(after))))
			})
		}
	}
}
