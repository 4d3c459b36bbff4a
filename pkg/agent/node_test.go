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
	"github.com/weft-network/weft/pkg/agent/gateway"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/openvswitch"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/poll"
)

const (
	nodeName = "node1"
	encapIP  = "172.18.0.11"
	// patience is how long a test waits for a condition. Most take a tenth of a second, but ovs-vswitchd and
	// ovn-controller wait a second or more before they reconnect to a database.
	patience = time.Minute
)

// node is the node of one test, with its own OVN and Open vSwitch, and the shared API server.
type node struct {
	*testing.T
	central *ovndbtest.Central
	ovs     *ovndbtest.Switch
	nb      *ovndb.Engine // writes as the operator does
	rows    *ovndb.Conn   // the test's own copy of Open_vSwitch
	dir     string
	counter *counter
	agent   *runningAgent
	options func(*agent.Options) // changes the agent's options; may be nil
	waits   waits
}

// counter is the observer of the agents' database connections.
type counter struct {
	mu     sync.Mutex
	writes map[string]int // transactions by database
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
	changes.Notify()
}

// Connected implements ovndb.Observer.
func (c *counter) Connected(string, bool) { changes.Notify() }

// Drift implements ovndb.Observer.
func (c *counter) Drift(string, string, string) {}

func (c *counter) count(database string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes[database]
}

// newNode starts OVN and Open vSwitch, without ovn-controller, and creates the Node. It does not start an agent.
func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{T: t, dir: t.TempDir(), counter: &counter{writes: map[string]int{}}}
	t.Cleanup(n.clear) // runs last
	t.Setenv("PATH", filepath.Dir(ovndbtest.Binary(t, "ovs-ofctl"))+":"+os.Getenv("PATH"))
	n.central, n.ovs = ovndbtest.StartCentral(t), ovndbtest.StartSwitch(t)
	n.makeUplink()
	n.nb = ovndb.NewEngine(ovndb.Config{
		Schema: northbound.Schema(), Endpoints: []string{n.central.NB.Endpoint()}, Log: logr.Discard(),
		OnConnect: func(bool) { changes.Notify() },
	}, nil)
	n.rows = ovndb.NewConn(ovndb.Config{
		Schema: openvswitch.Schema(), Endpoints: []string{n.ovs.Endpoint()}, Log: logr.Discard(),
		OnRow:     func(string, model.Model, ovndb.RowEvent) { changes.Notify() },
		OnConnect: func(bool) { changes.Notify() },
	})
	n.background(n.nb.Run)
	n.background(n.rows.Run)
	n.until("the test's connections", func() error {
		if !n.nb.Connected() || !n.rows.Connected() {
			return errors.New("not connected")
		}
		return nil
	})
	n.apply(topology.NetworkUnit(facts.Network{Join: prefixes("100.64.0.0/16", "fd98::/64")}))
	n.must(os.MkdirAll(n.path("bin-source"), 0o755))
	n.must(os.MkdirAll(n.path("net.d"), 0o755))
	n.must(os.WriteFile(n.path("bin-source", "weft-cni"), []byte("#!/bin/false\n"), 0o755))
	k8sNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	n.must(api.Create(n.Context(), k8sNode))
	k8sNode.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: encapIP}}
	n.must(api.Status().Update(n.Context(), k8sNode))
	t.Cleanup(n.stopAgent) // before the databases are stopped
	return n
}

// background runs a connection until the test ends.
func (n *node) background(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	n.Cleanup(func() { cancel(); <-done })
}

// makeUplink creates the bridge of the userspace datapath that has the node's address, as the administrator does.
func (n *node) makeUplink() {
	n.Helper()
	n.ovs.Ctl("add-br", "br-ex", "--", "set", "Bridge", "br-ex", "datapath_type="+ovndbtest.Datapath(n))
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

// clear removes the API objects and the links for the next test. The test's own context has ended by then.
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
	links, err := linkList()
	n.must(err)
	for _, link := range links {
		if link.Attrs().Name != "lo" {
			_ = netlink.LinkDel(link) // fails for the second end of a pair, which is removed with the first
		}
	}
}

// linkList lists the links of the thread's network namespace, again while links change.
func linkList() (links []netlink.Link, err error) {
	for err = netlink.ErrDumpInterrupted; errors.Is(err, netlink.ErrDumpInterrupted); {
		links, err = netlink.LinkList()
	}
	return links, err
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

// until repeats the check at every change until it returns no error.
func (n *node) until(what string, check func() error) {
	n.Helper()
	// Changes of links and processes are not notified.
	wait := poll.Wait{Timeout: patience, Changes: changes.Next, Interval: time.Second / 4}
	wait.Eventually(n, func() error {
		if err := check(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
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

// spec returns the NodeNetwork's spec as the operator would write it.
func spec() networkv1alpha1.NodeNetworkSpec {
	return networkv1alpha1.NodeNetworkSpec{
		NodeID:     1,
		PodSubnets: []networkv1alpha1.CIDR{"10.244.1.0/24", "fd00:10:244:1::/64"},
		Gateways:   []networkv1alpha1.IP{"10.244.1.1", "fd00:10:244:1::1"},
		ManagementPort: networkv1alpha1.ManagementPort{
			MACAddress: "0a:58:0a:f4:01:02",
			Addresses:  []networkv1alpha1.InterfaceAddress{"10.244.1.2/24", "fd00:10:244:1::2/64"},
		},
		ClusterSubnets: []networkv1alpha1.CIDR{"10.244.0.0/16", "fd00:10:244::/48"},
		ServiceSubnets: []networkv1alpha1.CIDR{"10.96.0.0/16", "fd00:10:96::/112"},
	}
}

// join creates the node's NodeNetwork and its rows, as the operator does.
func (n *node) join() {
	n.Helper()
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Spec: spec()}
	n.must(api.Create(n.Context(), nn))
	read, err := facts.ParseNodeNetwork(nn)
	n.must(err)
	n.apply(topology.NodeUnit(read))
}

// edit changes the NodeNetwork's spec, as the operator does, and returns the object. The agent may write the status meanwhile.
func (n *node) edit(change func(*networkv1alpha1.NodeNetworkSpec)) *networkv1alpha1.NodeNetwork {
	n.Helper()
	nn := &networkv1alpha1.NodeNetwork{}
	n.must(api.Get(n.Context(), types.NamespacedName{Name: nodeName}, nn))
	former := nn.DeepCopy()
	change(&nn.Spec)
	n.must(api.Patch(n.Context(), nn, client.MergeFrom(former)))
	return nn
}

// status returns the NodeNetwork's status, or nil if there is no NodeNetwork.
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

// condition returns an error unless the condition has the wanted status.
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

// runningAgent is an agent that runs like the process of cmd/weft-agent.
type runningAgent struct {
	cancel context.CancelFunc
	done   chan error
}

func (n *node) socket() string { return "/run/weft/cni.sock" }

// startAgent starts an agent with the state that the previous one left.
func (n *node) startAgent() {
	n.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	mgr := n.setUpAgent(ctx)
	n.agent = &runningAgent{cancel: cancel, done: make(chan error, 1)}
	go func() { n.agent.done <- mgr.Start(ctx) }()
}

func (n *node) setUpAgent(ctx context.Context) ctrl.Manager {
	n.Helper()
	mine := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", nodeName)}
	cached := gateway.CachedServices(nodeName)
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
	options := agent.Options{
		Node: nodeName, Southbound: []string{n.central.SB.Endpoint()}, OpenVSwitch: n.ovs.Endpoint(), Socket: n.socket(),
		ConfDir: n.path("net.d"), BinDir: n.path("bin"), BinSource: n.path("bin-source"), Observer: n.counter,
		ControllerDir: n.ovs.RunDir(), SwitchDir: n.ovs.RunDir(),
	}
	options.AddFailpoint(n.waits.failpoint)
	if n.options != nil {
		n.options(&options)
	}
	n.must(agent.Setup(ctx, mgr, options))
	return mgr
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

// readyNode returns a node whose pods can be attached.
func readyNode(t *testing.T) *node {
	t.Helper()
	return readyNodeWith(t, nil)
}

// readyNodeWith returns a ready node whose agent has other options.
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
