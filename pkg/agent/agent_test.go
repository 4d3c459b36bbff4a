package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

const mp0 = "ovn-k8s-mp0"

// mp0Has lists the addresses, except link-local ones, and the routes of the management port.
func mp0Has() (found []string, err error) {
	link, err := netlink.LinkByName(mp0)
	if err != nil {
		return nil, err
	}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if !a.IP.IsLinkLocalUnicast() {
			found = append(found, a.IPNet.String())
		}
	}
	routes, err := netlink.RouteList(link, netlink.FAMILY_ALL)
	for _, r := range routes {
		if r.Gw != nil {
			found = append(found, r.Dst.String()+" via "+r.Gw.String())
		}
	}
	slices.Sort(found)
	return found, err
}

func (n *node) awaitHost() {
	n.Helper()
	want := []string{
		"10.244.0.0/16 via 10.244.1.1", "10.244.1.2/24", "10.96.0.0/16 via 10.244.1.1",
		"fd00:10:244:1::2/64", "fd00:10:244::/48 via fd00:10:244:1::1", "fd00:10:96::/112 via fd00:10:244:1::1",
	}
	n.until("the management port", func() error {
		got, err := mp0Has()
		if err == nil && !slices.Equal(got, want) {
			err = errors.New(cmp.Diff(want, got))
		}
		return err
	})
}

func (n *node) bridge() (*vswitchdb.Bridge, error) {
	bridge, ok := ovndb.Find(n.rows, &vswitchdb.Bridge{Name: "br-int"})
	if !ok {
		return nil, errors.New("no br-int")
	}
	return bridge, nil
}

func TestNodeBecomesReady(t *testing.T) {
	n := newNode(t)
	n.ovs.Ctl("set", "Open_vSwitch", ".", "ovs_version=3.5.0") // as ovs-ctl does
	n.startAgent()
	if err := n.ready(); err == nil {
		t.Error("STATUS succeeds on an empty node")
	}
	n.ovs.RunController()
	n.until("br-int", func() error { _, err := n.bridge(); return err })
	if _, err := os.Stat(n.path("net.d", "05-weft.conflist")); err == nil {
		t.Error("the CNI configuration exists before pods can be attached")
	}
	n.join()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	n.awaitHost()
	if err := n.ready(); err != nil {
		t.Errorf("STATUS: %v", err)
	}
	for _, kind := range []string{"OVSReady", "ControllerReady", "ManagementPortReady", "CNIReady"} {
		if err := n.condition(kind, metav1.ConditionTrue); err != nil {
			t.Error(err)
		}
	}
	s := n.status()
	if s.Chassis != nodeName || s.EncapIP != encapIP || string(s.DatapathType) != ovndbtest.Datapath(t) || s.LinkMTU != 1500 ||
		s.ManagementPort.Name != mp0 || s.OVSVersion != "3.5.0" {
		t.Errorf("status is %+v", s)
	}
	ovs, _ := ovndb.Only[vswitchdb.OpenvSwitch](n.rows)
	for key, want := range map[string]string{
		"system-id": nodeName, "ovn-encap-ip": encapIP, "ovn-encap-type": "geneve",
		"ovn-remote": n.central.SB.Endpoint(), "ovn-bridge": "br-int",
	} {
		if ovs.ExternalIDs[key] != want {
			t.Errorf("external_ids:%s is %q", key, ovs.ExternalIDs[key])
		}
	}
	link, err := netlink.LinkByName(mp0)
	n.must(err)
	if a := link.Attrs(); a.HardwareAddr.String() != "0a:58:0a:f4:01:02" || a.MTU != 1442 {
		t.Errorf("the management port has MAC %s, MTU %d", a.HardwareAddr, a.MTU)
	}
	var list struct {
		Plugins []struct{ Type, Socket string }
	}
	text, err := os.ReadFile(n.path("net.d", "05-weft.conflist"))
	n.must(err)
	n.must(json.Unmarshal(text, &list))
	if len(list.Plugins) != 1 || list.Plugins[0].Type != "weft-cni" || list.Plugins[0].Socket != n.socket() {
		t.Errorf("the CNI configuration is %s", text)
	}
	if info, err := os.Stat(n.path("bin", "weft-cni")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the plugin: %v", err)
	}
}

// The Ready condition names the first stage that is not ready.
func TestReadyNamesTheStage(t *testing.T) {
	n := newNode(t)
	n.join()
	n.startAgent()
	n.until("the reason", func() error {
		return n.message("ControllerReady: ovn-controller does not answer in " + n.ovs.RunDir())
	})
	n.ovs.RunController()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	n.ovs.KillController() // its Chassis row stays
	n.awaitCondition(networkv1alpha1.ConditionControllerReady, metav1.ConditionFalse)
	n.ovs.RunController()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
}

func (n *node) message(want string) error {
	s := n.status()
	if s == nil {
		return errors.New("no NodeNetwork")
	}
	for _, c := range s.Conditions {
		if c.Type == networkv1alpha1.ConditionReady && c.Message == want {
			return nil
		}
	}
	return fmt.Errorf("conditions are %v", s.Conditions)
}

// The agent restores what someone changes by hand in the kernel and in Open vSwitch.
func TestWhatOthersUndoComesBack(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	n.givePort(web)
	n.add(web)
	n.awaitHost()
	link, err := netlink.LinkByName(mp0)
	n.must(err)
	n.must(netlink.AddrDel(link, &netlink.Addr{IPNet: mustIPNet("10.244.1.2/24")}))
	n.awaitHost()
	n.ovs.Ctl("set", "Open_vSwitch", ".", "external_ids:ovn-encap-ip=192.0.2.99", "external_ids:system-id=other")
	n.until("the chassis", func() error {
		ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](n.rows)
		restored := ok && ovs.ExternalIDs["ovn-encap-ip"] == encapIP && ovs.ExternalIDs["system-id"] == nodeName
		return isTrue(restored, fmt.Sprint(ovs))
	})
	n.ovs.Ctl("del-port", "br-int", mp0)
	n.awaitHost()
	name, before := n.awaitInstalled(web).Name, n.counter.count("Open_vSwitch")
	n.ovs.Ctl("del-port", "br-int", name)
	n.until("the agent's write", func() error {
		return isTrue(n.counter.count("Open_vSwitch") > before, "the agent writes nothing")
	})
	n.awaitInstalled(web)
	n.wantTraffic(web)
}

// A restarted ovs-vswitchd recreates the management port's device.
func TestTheSwitchRestarts(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	n.givePort(web)
	n.add(web)
	n.ovs.KillSwitch()
	n.ovs.RunSwitch()
	n.awaitHost()
	n.wantTraffic(web)
}

func TestTheSpecChanges(t *testing.T) {
	n := readyNode(t)
	nn := n.edit(func(spec *networkv1alpha1.NodeNetworkSpec) { spec.MTU = 1300 })
	n.until("the MTU", func() error {
		link, err := netlink.LinkByName(mp0)
		if err != nil {
			return err
		}
		return isTrue(link.Attrs().MTU == 1300, fmt.Sprint(link.Attrs().MTU))
	})
	n.until("the generation", func() error {
		return isTrue(n.status().ObservedGeneration == nn.Generation, "not observed")
	})
	web := n.newPod("web", 5)
	n.givePort(web)
	if got := n.add(web).Interfaces[1].Mtu; got != 1300 {
		t.Errorf("the pod's MTU is %d", got)
	}
}

// An agent that restarts writes neither to Open vSwitch nor to the API server if nothing has changed.
func TestAnUnchangedRestartWritesNothing(t *testing.T) {
	n := readyNode(t)
	var pods []pod
	for slot := 5; slot < 10; slot++ {
		p := n.newPod(fmt.Sprintf("web-%d", slot), slot)
		n.givePort(p)
		n.add(p)
		pods = append(pods, p)
	}
	n.until("the count of pods", func() error {
		return isTrue(n.status().Pods == 5 && n.status().Addresses.Used == 5, fmt.Sprint(n.status()))
	})
	n.stopAgent()
	nn := &networkv1alpha1.NodeNetwork{}
	n.must(api.Get(t.Context(), types.NamespacedName{Name: nodeName}, nn))
	before, links := n.counter.count("Open_vSwitch"), n.hostLinks()

	n.startAgent()
	n.until("STATUS", n.ready)
	n.wantTraffic(pods[0])
	if got := n.counter.count("Open_vSwitch"); got != before {
		t.Errorf("%d transactions in Open vSwitch", got-before)
	}
	after := &networkv1alpha1.NodeNetwork{}
	n.must(api.Get(t.Context(), types.NamespacedName{Name: nodeName}, after))
	if after.ResourceVersion != nn.ResourceVersion {
		t.Errorf("the NodeNetwork's status was written: %s", cmp.Diff(nn.Status, after.Status))
	}
	if diff := cmp.Diff(links, n.hostLinks()); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	p := n.newPod("new", 20)
	n.givePort(p)
	n.add(p)
	n.awaitPods(append(pods, p)...)
	n.until("the new count of pods", func() error { return isTrue(n.status().Pods == 6, fmt.Sprint(n.status().Pods)) })
	was := meta.FindStatusCondition(nn.Status.Conditions, "Ready")
	is := meta.FindStatusCondition(n.status().Conditions, "Ready")
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("condition Ready changed:\n%s", diff)
	}
	for _, p := range append(pods, p) {
		n.del(p)
	}
	n.awaitPods()
}

// An agent that a signal ends before its manager has started the parts leaves no goroutine behind.
func TestAnAgentEndsBeforeItHasStarted(t *testing.T) {
	n := newNode(t)
	ctx, cancel := context.WithCancel(context.Background())
	before := goleak.IgnoreCurrent()
	n.setUpAgent(ctx)
	cancel()
	n.must(leaked(before))
}

// An agent that starts on a broken node reports that after the grace period for connections.
func TestARestartOnABrokenNodeSaysSo(t *testing.T) {
	if testing.Short() {
		t.Skip("waits 10 s")
	}
	n := readyNode(t)
	n.stopAgent()
	n.ovs.KillController()
	n.startAgent()
	n.awaitCondition(networkv1alpha1.ConditionControllerReady, metav1.ConditionFalse)
	n.ovs.RunController()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
}

// An agent that starts removes links without a row, and rows whose link is gone.
func TestARestartSweepsWhatACrashLeft(t *testing.T) {
	n := readyNode(t)
	kept, lost := n.newPod("kept", 5), n.newPod("lost", 6)
	n.givePort(kept)
	n.givePort(lost)
	n.add(kept)
	lostLink := n.add(lost).Interfaces[0].Name
	n.stopAgent()

	link, err := netlink.LinkByName(lostLink)
	n.must(err)
	n.must(netlink.LinkDel(link))
	for name, alias := range map[string]string{
		"weft0123456789": "", cni.HostName("sandbox-unknown", "eth0"): "weft:sandbox-unknown/eth0",
	} {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		pair := netlink.NewVeth(attrs)
		pair.PeerName = "p" + name[4:]
		n.must(netlink.LinkAdd(pair))
		if alias != "" {
			n.must(netlink.LinkSetAlias(pair, alias))
		}
	}
	n.startAgent()
	n.awaitPods(kept)
	n.wantTraffic(kept)
	n.until("STATUS", n.ready)
	n.add(lost)
	n.awaitPods(kept, lost)
	n.wantTraffic(lost)
}

// While Open vSwitch is down, the status keeps the chassis, an ADD waits, and pods are not touched.
func TestOpenVSwitchGoesAway(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	n.givePort(web)
	n.add(web)
	n.ovs.Kill()
	n.awaitCondition(networkv1alpha1.ConditionOVSReady, metav1.ConditionFalse)
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionFalse)
	if s := n.status(); s.Chassis != nodeName || s.EncapIP != encapIP || string(s.DatapathType) != ovndbtest.Datapath(t) ||
		s.LinkMTU != 1500 {
		t.Errorf("status is %+v", s)
	}
	if err := n.ready(); err == nil || !strings.Contains(err.Error(), "Open vSwitch does not answer") {
		t.Errorf("STATUS: %v", err)
	}
	next := n.newPod("next", 6)
	n.givePort(next)
	answers, _ := n.startAdd(next) // waits
	n.del(web)                     // its rows are removed when Open vSwitch is back
	n.ovs.Run()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	if a := <-answers; a.err != nil {
		t.Errorf("ADD sent while Open vSwitch was down: %v", a.err)
	}
	n.awaitPods(next)
	n.wantTraffic(next)
}

// While the southbound database is down, the status keeps what the agent read from it.
func TestTheSouthboundGoesAway(t *testing.T) {
	n := readyNodeWith(t, func(o *agent.Options) { o.StatusGrace = time.Millisecond })
	web := n.newPod("web", 5)
	n.givePort(web)
	n.add(web)
	n.until("the count", func() error {
		return isTrue(n.status().Addresses.Used == 1, fmt.Sprint(n.status().Addresses))
	})
	n.central.SB.Kill()
	n.awaitCondition(networkv1alpha1.ConditionControllerReady, metav1.ConditionFalse)
	if s := n.status(); s.Addresses.Used != 1 || s.Pods != 1 || s.Chassis != nodeName {
		t.Errorf("status is %+v, addresses %+v", s, s.Addresses)
	}
	n.awaitStatus(cniwire.CodeLimited, "southbound")
	n.wantTraffic(web)
	n.central.SB.Run()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	next := n.newPod("next", 6)
	n.givePort(next)
	n.add(next)
	n.wantTraffic(next)
}

// The database of Open vSwitch is emptied while the agent runs. Everything is restored, also if br-int was foreign.
func TestOpenVSwitchIsEmptied(t *testing.T) {
	for name, foreign := range map[string]bool{"with our bridge": false, "with a foreign bridge": true} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if foreign {
				n.ovs.Ctl("add-br", "br-int")
			}
			n.ovs.RunController()
			n.join()
			n.startAgent()
			n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
			web := n.newPod("web", 5)
			n.givePort(web)
			result := n.add(web)
			n.ovs.Kill()
			n.awaitCondition(networkv1alpha1.ConditionOVSReady, metav1.ConditionFalse)
			n.ovs.Empty()
			n.ovs.Run()
			n.ovs.Init()
			n.makeUplink()
			n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
			n.awaitHost()
			n.awaitPods(web)
			n.wantTraffic(web)
			n.until("CHECK", func() error { return n.check(web, result) })
			n.del(web)
			n.awaitPods()
		})
	}
}

// The database of Open vSwitch is lost and the agent is replaced meanwhile, so that nobody has its record in memory. A DEL
// came in between; a copy is damaged, and one belongs to a sandbox that a reboot ended.
func TestOpenVSwitchIsEmptiedWhileNoAgentRuns(t *testing.T) {
	n := readyNode(t)
	web, other, gone := n.newPod("web", 5), n.newPod("other", 6), n.newPod("gone", 7)
	results := map[string]*types100.Result{}
	for _, p := range []pod{web, other, gone} {
		n.givePort(p)
		results[p.name] = n.add(p)
	}
	before := n.interfaces()
	n.stopAgent()
	n.bury(gone)
	copies := filepath.Join(filepath.Dir(n.socket()), "attachments")
	n.must(os.WriteFile(filepath.Join(copies, "damaged.json"), []byte("{"), 0o600))
	text, err := os.ReadFile(filepath.Join(copies, web.container+"@eth0.json"))
	n.must(err)
	n.must(os.WriteFile(filepath.Join(copies, "earlier@eth0.json"),
		bytes.ReplaceAll(text, []byte(web.container), []byte("earlier")), 0o600))
	n.ovs.Kill()
	n.ovs.Empty()
	n.ovs.Run()
	n.ovs.Init()
	n.makeUplink()
	n.startAgent()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	n.awaitPods(web, other)
	for _, p := range []pod{web, other} {
		n.wantTraffic(p)
		n.until("CHECK", func() error { return n.check(p, results[p.name]) })
		after := n.interfaces()[p.port()].ExternalIDs
		for _, key := range []string{"iface-id", "iface-id-ver", "attached_mac", "sandbox", "netns", "ip_addresses", "cni-network"} {
			if was := before[p.port()].ExternalIDs[key]; was == "" || after[key] != was {
				t.Errorf("%s of %s is %q, was %q", key, p.name, after[key], was)
			}
		}
		n.del(p)
	}
	n.awaitPods()
}

// After the database is emptied, another program creates br-int first. The pods are attached to that bridge.
func TestOpenVSwitchIsEmptiedAndAnotherMakesTheBridge(t *testing.T) {
	n := readyNode(t)
	ours, err := n.bridge()
	n.must(err)
	web := n.newPod("web", 5)
	n.givePort(web)
	n.add(web)
	n.ovs.Kill()
	n.awaitCondition(networkv1alpha1.ConditionOVSReady, metav1.ConditionFalse)
	n.ovs.Empty()
	n.ovs.Run()
	n.ovs.Ctl("init", "--", "add-br", "br-int")
	n.makeUplink()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	if bridge, err := n.bridge(); err != nil || bridge.UUID == ours.UUID {
		t.Fatalf("the bridge is the agent's: %v", err)
	}
	n.awaitHost()
	n.awaitPods(web)
	n.wantTraffic(web)
}

// The agent adopts a br-int that ovn-controller or an installer created first.
func TestAForeignBridgeIsAdopted(t *testing.T) {
	n := newNode(t)
	n.ovs.Ctl("add-br", "br-int", "--", "set", "Bridge", "br-int", "external_ids:made-by=somebody")
	n.ovs.RunController()
	n.until("the bridge", func() error { _, err := n.bridge(); return err })
	theirs, err := n.bridge()
	n.must(err)
	n.join()
	n.startAgent()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	bridge, err := n.bridge()
	n.must(err)
	if bridge.UUID != theirs.UUID || bridge.FailMode == nil || *bridge.FailMode != "secure" ||
		bridge.DatapathType != ovndbtest.Datapath(t) || bridge.OtherConfig["disable-in-band"] != "true" ||
		bridge.ExternalIDs["made-by"] != "somebody" || bridge.ExternalIDs["weft.dev/unit"] != "" {
		t.Errorf("the bridge is %+v", bridge)
	}
	web := n.newPod("web", 5)
	n.givePort(web)
	n.add(web)
	n.wantTraffic(web)
	n.del(web)
	n.awaitPods()
}

// The agent keeps an existing system-id and restores it if it is removed.
func TestASystemIDThatIsThereStays(t *testing.T) {
	n := newNode(t)
	n.ovs.Ctl("set", "Open_vSwitch", ".", "external_ids:system-id=of-the-distribution")
	n.ovs.RunController()
	n.join()
	n.startAgent()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	if got := n.status().Chassis; got != "of-the-distribution" {
		t.Fatalf("chassis is %s", got)
	}
	n.stopAgent()
	n.ovs.Ctl("remove", "Open_vSwitch", ".", "external_ids", "system-id")
	n.startAgent()
	n.until("STATUS", n.ready)
	ovs, _ := ovndb.Only[vswitchdb.OpenvSwitch](n.rows)
	if got := n.status().Chassis; got != "of-the-distribution" || ovs.ExternalIDs["system-id"] != got {
		t.Errorf("chassis is %s in the status and %s in Open vSwitch", got, ovs.ExternalIDs["system-id"])
	}
}

// The status reports a Node without a usable address, and the node becomes ready when it has one.
func TestANodeWithoutAnAddress(t *testing.T) {
	n := newNode(t)
	n.ovs.RunController()
	n.join()
	k8sNode := &corev1.Node{}
	n.must(api.Get(t.Context(), client.ObjectKey{Name: nodeName}, k8sNode))
	k8sNode.Status.Addresses[0].Address = "192.0.2.77"
	n.must(api.Status().Update(t.Context(), k8sNode))
	n.startAgent()
	n.until("the reason", func() error {
		return n.message("OVSReady: encapsulation: Node's InternalIP 192.0.2.77: no link of this host has address 192.0.2.77")
	})
	k8sNode.Status.Addresses[0].Address = encapIP
	n.must(api.Status().Update(t.Context(), k8sNode))
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
}

// Concurrent ADDs share transactions.
func TestManyAddsAtOnce(t *testing.T) {
	n := readyNode(t)
	const many = 50
	var pods []pod
	for slot := 10; slot < 10+many; slot++ {
		pods = append(pods, n.newPod(fmt.Sprintf("web-%d", slot), slot))
		n.givePort(pods[len(pods)-1])
	}
	before := n.counter.count("Open_vSwitch")
	var answers []<-chan answer
	for _, p := range pods {
		a, _ := n.startAdd(p)
		answers = append(answers, a)
	}
	for i, a := range answers {
		if got := <-a; got.err != nil {
			t.Errorf("ADD of %s: %v", pods[i].name, got.err)
		}
	}
	used := n.counter.count("Open_vSwitch") - before
	t.Logf("%d transactions for %d ADDs", used, many)
	if used > many {
		t.Errorf("%d transactions for %d ADDs", used, many)
	}
	n.awaitPods(pods...)
	for _, p := range []pod{pods[0], pods[many/2], pods[many-1]} {
		n.wantTraffic(p)
	}
	n.until("the count of pods", func() error {
		return isTrue(n.status().Pods == many, fmt.Sprint(n.status().Pods))
	})
	for _, p := range pods {
		n.del(p)
	}
	n.awaitPods()
}
