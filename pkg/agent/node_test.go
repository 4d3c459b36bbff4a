package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/openvswitch"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	nodeName = "node1"
	encapIP  = "172.18.0.11"
	// patience is how long a test waits for what must come; a tenth of a second is usual, and a database connection that was
	// lost is tried again by ovs-vswitchd and ovn-controller after one second and more.
	patience = 20 * time.Second
)

// node is one test's node: OVN and Open vSwitch of its own, and the shared API server.
type node struct {
	*testing.T
	central *ovndbtest.Central
	ovs     *ovndbtest.Switch
	nb      *ovndb.Engine // writes as the operator does
	rows    *ovndb.Conn   // the test's own copy of Open_vSwitch
	dir     string
	counter *counter
	agent   *runningAgent
	options func(*agent.Options) // what the test wants otherwise; may be nil
}

// counter is the agents' observer.
type counter struct {
	mu     sync.Mutex
	writes map[string]int // database -> transactions
	errs   []error
}

// Transaction implements ovndb.Observer.
func (c *counter) Transaction(database, kind string, _ int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == "write" {
		c.writes[database]++
	}
	if err != nil {
		c.errs = append(c.errs, err)
	}
	news.tell()
}

// Connected implements ovndb.Observer.
func (c *counter) Connected(string, bool) { news.tell() }

// Drift implements ovndb.Observer.
func (c *counter) Drift(string, string, string) {}

func (c *counter) count(database string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes[database]
}

// newNode starts OVN and Open vSwitch, without ovn-controller, and makes the Node. The agent is not started.
func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{T: t, dir: t.TempDir(), counter: &counter{writes: map[string]int{}}}
	t.Cleanup(n.clear) // runs last
	t.Setenv("PATH", filepath.Dir(ovndbtest.Binary(t, "ovs-ofctl"))+":"+os.Getenv("PATH"))
	n.central, n.ovs = ovndbtest.StartCentral(t), ovndbtest.StartSwitch(t)
	n.makeUplink()
	n.nb = ovndb.NewEngine(ovndb.Config{Schema: northbound.Schema(), Endpoints: []string{n.central.NB.Endpoint()}, Log: logr.Discard(),
		OnConnect: func(bool) { news.tell() }}, nil)
	n.rows = ovndb.NewConn(ovndb.Config{Schema: openvswitch.Schema(), Endpoints: []string{n.ovs.Endpoint()}, Log: logr.Discard(),
		OnRow: func(string, model.Model, ovndb.RowEvent) { news.tell() }, OnConnect: func(bool) { news.tell() }})
	n.background(n.nb.Run)
	n.background(n.rows.Run)
	n.until("the test's connections", func() error {
		if !n.nb.Connected() || !n.rows.Connected() {
			return errors.New("not connected")
		}
		return nil
	})
	n.apply(topology.NetworkUnit(topology.Network{Join: prefixes("100.64.0.0/16", "fd98::/64")}))
	n.must(os.MkdirAll(n.path("bin-source"), 0o755))
	n.must(os.MkdirAll(n.path("net.d"), 0o755))
	n.must(os.WriteFile(n.path("bin-source", "weft-cni"), []byte("#!/bin/false\n"), 0o755))
	k8sNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	n.must(api.Create(n.Context(), k8sNode))
	k8sNode.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: encapIP}}
	n.must(api.Status().Update(n.Context(), k8sNode))
	t.Cleanup(n.stopAgent) // before the databases go
	return n
}

// background runs a connection until the test ends.
func (n *node) background(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	n.Cleanup(func() { cancel(); <-done })
}

// makeUplink does the administrator's part: a bridge of the userspace datapath that holds the node's address.
func (n *node) makeUplink() {
	n.Helper()
	n.ovs.Ctl("add-br", "br-ex", "--", "set", "Bridge", "br-ex", "datapath_type=netdev")
	address, err := netlink.ParseAddr(encapIP + "/24")
	n.must(err)
	n.until("br-ex", func() error {
		link, err := netlink.LinkByName("br-ex")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetMTU(link, 1500), netlink.LinkSetUp(link), netlink.AddrReplace(link, address))
	})
}

// clear leaves an empty API server and no links to the next test. The test's own context is over by now.
func (n *node) clear() {
	n.Helper()
	ctx := context.Background()
	n.must(client.IgnoreNotFound(api.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})))
	n.must(client.IgnoreNotFound(api.Delete(ctx, &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})))
	n.until("an empty API server", func() error {
		if n.status() != nil {
			return errors.New("the NodeNetwork is left")
		}
		return nil
	})
	links, err := netlink.LinkList()
	n.must(err)
	for _, link := range links {
		if link.Attrs().Name != "lo" {
			_ = netlink.LinkDel(link) // a pair's second end went with the first
		}
	}
}

func (n *node) path(parts ...string) string {
	return filepath.Join(append([]string{n.dir}, parts...)...)
}

func (n *node) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// until waits for news as long as there is something wrong.
func (n *node) until(what string, wrong func() error) {
	n.Helper()
	deadline := time.After(patience)
	for {
		next := news.coming()
		err := wrong()
		if err == nil {
			return
		}
		select {
		case <-next:
		case <-time.After(time.Second / 4): // links and processes tell nobody here
		case <-deadline:
			n.Fatalf("%s: %v", what, err)
		}
	}
}

// apply writes a unit to the northbound database, as the operator does.
func (n *node) apply(u unit.Unit) {
	n.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n.must(n.nb.Apply(ctx, u))
}

func prefixes(texts ...string) (parsed []netip.Prefix) {
	for _, text := range texts {
		parsed = append(parsed, netip.MustParsePrefix(text))
	}
	return parsed
}

// spec is what the operator would write for the node.
func spec() networkv1alpha1.NodeNetworkSpec {
	return networkv1alpha1.NodeNetworkSpec{
		NodeID:     1,
		PodSubnets: []networkv1alpha1.CIDR{"10.244.1.0/24", "fd00:10:244:1::/64"},
		Gateways:   []networkv1alpha1.IP{"10.244.1.1", "fd00:10:244:1::1"},
		ManagementPort: networkv1alpha1.ManagementPort{MACAddress: "0a:58:0a:f4:01:02",
			Addresses: []networkv1alpha1.InterfaceAddress{"10.244.1.2/24", "fd00:10:244:1::2/64"}},
		ClusterSubnets: []networkv1alpha1.CIDR{"10.244.0.0/16", "fd00:10:244::/48"},
		ServiceSubnets: []networkv1alpha1.CIDR{"10.96.0.0/16", "fd00:10:96::/112"},
	}
}

// join does the operator's part for the node: its NodeNetwork and its rows.
func (n *node) join() {
	n.Helper()
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Spec: spec()}
	n.must(api.Create(n.Context(), nn))
	facts, err := topology.ParseNodeNetwork(nn)
	n.must(err)
	n.apply(topology.NodeUnit(facts))
}

// status is the NodeNetwork's, nil without one.
func (n *node) status() *networkv1alpha1.NodeNetworkStatus {
	n.Helper()
	nn := &networkv1alpha1.NodeNetwork{}
	err := view.Get(context.Background(), types.NamespacedName{Name: nodeName}, nn)
	if client.IgnoreNotFound(err) != nil {
		n.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return &nn.Status
}

// condition says what is wrong with a condition, nil if it has the wanted status and its text holds no surprise.
func (n *node) condition(kind string, want metav1.ConditionStatus) error {
	s := n.status()
	if s == nil {
		return errors.New("no NodeNetwork")
	}
	c := meta.FindStatusCondition(s.Conditions, kind)
	if c == nil {
		return fmt.Errorf("no condition %s", kind)
	}
	if c.Status != want {
		return fmt.Errorf("condition %s is %s: %s: %s", kind, c.Status, c.Reason, c.Message)
	}
	return nil
}

func (n *node) awaitCondition(kind string, want metav1.ConditionStatus) {
	n.Helper()
	n.until("condition", func() error { return n.condition(kind, want) })
}

// runningAgent is an agent, as the process of cmd/weft-agent would be.
type runningAgent struct {
	cancel context.CancelFunc
	done   chan error
}

func (n *node) socket() string { return "/run/weft/cni.sock" }

// startAgent starts an agent on what the former left.
func (n *node) startAgent() {
	n.Helper()
	mine := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", nodeName)}
	cached := agent.CachedServices(nodeName)
	cached[&corev1.Node{}], cached[&networkv1alpha1.NodeNetwork{}] = mine, mine
	again := true
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:                 scheme,
		Cache:                  cache.Options{ByObject: cached},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Controller:             config.Controller{SkipNameValidation: &again},
	})
	n.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	options := agent.Options{
		Node: nodeName, Southbound: []string{n.central.SB.Endpoint()}, OpenVSwitch: n.ovs.Endpoint(), Socket: n.socket(),
		ConfDir: n.path("net.d"), BinDir: n.path("bin"), BinSource: n.path("bin-source"), Observer: n.counter,
		ControllerDir: n.ovs.RunDir(), SwitchDir: n.ovs.RunDir(),
	}
	if n.options != nil {
		n.options(&options)
	}
	n.must(agent.Setup(ctx, mgr, options))
	n.agent = &runningAgent{cancel: cancel, done: make(chan error, 1)}
	go func() { n.agent.done <- mgr.Start(ctx) }()
}

// stopAgent ends the agent as a signal does.
func (n *node) stopAgent() {
	n.Helper()
	if n.agent == nil {
		return
	}
	n.agent.cancel()
	if err := <-n.agent.done; err != nil {
		n.Errorf("the agent ended: %v", err)
	}
	n.agent = nil
}

// readyNode is a node whose pods can be attached.
func readyNode(t *testing.T) *node {
	t.Helper()
	return readyNodeWith(t, nil)
}

// readyNodeWith is one whose agent has other options.
func readyNodeWith(t *testing.T, options func(*agent.Options)) *node {
	t.Helper()
	n := newNode(t)
	n.options = options
	n.ovs.RunController()
	n.join()
	n.startAgent()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	return n
}

func mustIPNet(s string) *net.IPNet {
	ip, network, err := net.ParseCIDR(s)
	if err != nil {
		panic(err)
	}
	network.IP = ip
	return network
}
