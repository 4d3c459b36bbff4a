// Package agent is the part of Weft that runs on each node. It never connects to the northbound database. It reads
// and writes its own Node and NodeNetwork through the Kubernetes API, reads its bindings from the southbound
// database, and writes the local Open_vSwitch database. This package wires the parts:
//
//	node      NodeNetwork.spec ─▶ br-int, chassis, management port, routes ─▶ NodeNetwork.status
//	attach    runtime ─▶ weft-cni ─▶ socket ─▶ veth, OVS Interface ─▶ ovn-installed ─▶ result
//	gateway   traffic to and from outside: bridge, flows, nftables, services and host ports
//	bindings  this node's part of the southbound database
//	cniconfig, policylog, daemon, prober, idle
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/addressprobe"
	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/agent/bgp"
	"github.com/weft-network/weft/pkg/agent/bindings"
	"github.com/weft-network/weft/pkg/agent/cniconfig"
	"github.com/weft-network/weft/pkg/agent/cniserver"
	"github.com/weft-network/weft/pkg/agent/daemon"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/gateway"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/hostports"
	"github.com/weft-network/weft/pkg/agent/idle"
	"github.com/weft-network/weft/pkg/agent/ipsec"
	"github.com/weft-network/weft/pkg/agent/kubelet"
	"github.com/weft-network/weft/pkg/agent/learning"
	"github.com/weft-network/weft/pkg/agent/neighbour"
	"github.com/weft-network/weft/pkg/agent/node"
	"github.com/weft-network/weft/pkg/agent/nodeevents"
	"github.com/weft-network/weft/pkg/agent/podapi"
	"github.com/weft-network/weft/pkg/agent/policylog"
	"github.com/weft-network/weft/pkg/agent/prober"
	"github.com/weft-network/weft/pkg/agent/repairs"
	"github.com/weft-network/weft/pkg/agent/secondary"
	"github.com/weft-network/weft/pkg/agent/toobig"
	"github.com/weft-network/weft/pkg/agent/wildcards"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/cni/tombstone"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/openvswitch"
	"github.com/weft-network/weft/pkg/process/trigger"
)

const (
	// countDelay is how far the counts in the status may lag, so that the changes of many pods become one write.
	countDelay = 5 * time.Second
	// maxRequests is the number of CNI requests that may run at the same time. A request that waits for its port
	// costs next to nothing and must not delay the node's other pods.
	maxRequests = 512
	// statusGrace is the default of Options.StatusGrace. It is longer than the replacement of a pod takes.
	statusGrace = 15 * time.Second
	// passwords is the default of Options.Passwords.
	passwords = "/etc/weft/bgp"
)

// agent holds the parts while Setup wires them.
type agent struct {
	options Options
	mgr     ctrl.Manager
	running context.Context // ends with the agent

	trigger                 *trigger.Trigger
	changed, counted, later func() // enqueue the node: at once, after countDelay, after gateway.RetryMove

	ovs                  *ovndb.Engine
	bindings             *bindings.Bindings
	controller, vswitchd *daemon.Daemon
	cni                  *cniconfig.Config
	services             *gateway.Services
	health               *gateway.ProxyHealth
	gateway              *gateway.Gateway
	attachments          *attach.Attachments
	state                *attach.State
}

// Setup registers the agent's parts with a manager, whose cache should hold only this node's objects.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	recorder, err := nodeevents.NewRecorder(ctx, mgr, o.Node)
	if err != nil {
		return err
	}
	a := newAgent(ctx, mgr, o.withObservers())
	a.makeGateway(recorder)
	if err := errors.Join(a.cni.Install(), a.services.Register(ctx, mgr)); err != nil {
		return err
	}
	turns := cniserver.NewTurns()
	collector := attach.NewCollector(a.attachments, turns, a.options.ListDelay, a.counted, a.options.ObserveCollected)
	a.attachments.Buried = collector.Buried
	sandboxes := attach.NewSandboxes(collector, a.bindings, a.options.Sandboxes, a.gateway.Exposes, a.changed)
	a.gateway.Sandboxes, a.bindings.Unbound = sandboxes, sandboxes.Request
	if o.Mover != nil {
		o.Mover.SetReport(gateway.ReportMoves(recorder, o.Node))
	}
	foreign := attach.NewForeignHosts(a.changed,
		func(wait time.Duration) { a.trigger.EnqueueAfter(types.NamespacedName{Name: o.Node}, wait) })
	h := attach.NewHandler(attach.Options{
		Node: o.Node, OVS: a.ovs, Bindings: a.bindings, Attachments: a.attachments, State: a.state, Collector: collector, Foreign: foreign,
		Controller: a.controller, Switch: a.vswitchd, Counted: a.counted, Grace: cmp.Or(o.StatusGrace, statusGrace), Running: ctx,
		Failpoint: a.options.failpoint, Observe: a.options.ObserveStage, Failed: attach.FailedAdd(recorder, a.options.ObserveStageFailed),
	})
	networks := a.makeNetworks(recorder, turns, h)
	ports := a.makeHostPorts(h, networks.CompareAll)
	idle := idle.New(mgr.GetClient(), recorder)
	a.bindings.Bound, a.bindings.Present, a.bindings.Demanded = h.Bound, networks.Bound, idle.Demanded
	a.bindings.Synced = networks.CompareAll
	check := &attach.SelfCheck{
		Handler: h, Sandboxes: sandboxes, Turns: turns, Every: o.CheckInterval, Report: attach.FailedCheck(recorder),
		Observe: a.options.ObserveFailing, Changed: a.changed,
	}
	speaker := bgp.New(bgp.Options{Passwords: cmp.Or(o.Passwords, passwords), Changed: a.changed, Log: ctrl.Log.WithName("bgp"),
		Running: ctx})
	addresses := addressprobe.New(addressprobe.Options{Users: neighbour.Users, Changed: a.changed, Now: time.Now})
	r := node.New(node.Reconciler{
		Client: mgr.GetClient(), Node: o.Node, Version: o.Version, Events: recorder, Datapath: a.gateway.Datapath,
		OVS: a.ovs, Bindings: a.bindings, Controller: a.controller, Switch: a.vswitchd, ControllerRemotes: a.options.Controller,
		Attachments: a.attachments, State: a.state, Check: check, CNI: a.cni, Gateway: a.gateway,
		Prober: &prober.Prober{Running: ctx, Changed: a.changed}, Running: ctx,
		Learning: learning.New(o.SwitchDir, names.IntegrationBridge, ctrl.Log.WithName("affinity"),
			func() { a.trigger.EnqueueAfter(types.NamespacedName{Name: o.Node}, learning.Retry) }),
		BGP: speaker, Addresses: addresses, Foreign: foreign,
		IPsec: ipsec.New(ipsec.Options{Socket: o.IKESocket, Pair: o.Identity, Authorities: o.TLS.CACert, Changed: a.changed,
			Deleted: func() { a.gateway.Repairs.ChangedOf(repairs.IPsec) },
			After:   func(wait time.Duration) { a.trigger.EnqueueAfter(types.NamespacedName{Name: o.Node}, wait) },
			Log:     ctrl.Log.WithName("ipsec")}),
		Wildcards: wildcards.New(ctrl.Log.WithName("wildcards"), a.changed,
			func(wait time.Duration) { a.trigger.EnqueueAfter(types.NamespacedName{Name: o.Node}, wait) }),
	})
	if err := errors.Join(a.register(r), serve(mgr, h, turns, a.options)); err != nil {
		return err
	}
	decisions := &policylog.Log{Dir: o.ControllerDir, PodAt: a.attachments.PodAt, Log: ctrl.Log.WithName("policy")}
	for _, run := range []manager.RunnableFunc{
		decisions.Run, a.ovs.Run, a.controller.Run, a.vswitchd.Run, idle.Run, sandboxes.Run, check.Run, networks.Run, ports.Run,
		a.cni.Watch(a.changed), a.services.Checks, a.services.Run(mgr), a.watchHost, a.gateway.WatchRules, speaker.Run,
		addresses.Run,
	} {
		if err := mgr.Add(run); err != nil {
			return err
		}
	}
	if o.ProxyHealth != "" && o.ProxyHealth != "0" {
		if err := mgr.Add(manager.RunnableFunc(a.health.Serve(o.ProxyHealth))); err != nil {
			return err
		}
	}
	return a.addChecks()
}

// newAgent returns an agent with its connections and the functions that enqueue the node.
func newAgent(ctx context.Context, mgr ctrl.Manager, o Options) *agent {
	a := &agent{options: o, mgr: mgr, running: ctx, trigger: &trigger.Trigger{}, state: &attach.State{}}
	request := types.NamespacedName{Name: o.Node}
	a.changed = func() { a.trigger.Enqueue(request) }
	a.counted = func() { a.trigger.EnqueueAfter(request, countDelay) }
	a.later = func() { a.trigger.EnqueueAfter(request, gateway.RetryMove) }
	a.cni = &cniconfig.Config{Socket: o.Socket, ConfDir: o.ConfDir, BinDir: o.BinDir, BinSource: o.BinSource}
	a.bindings = &bindings.Bindings{
		Node:    o.Node,
		Remotes: o.Southbound, TLS: o.TLS, Observer: o.Observer, Log: ctrl.Log.WithName("southbound"),
		Changed: a.changed, Counted: a.counted,
	}
	a.controller = &daemon.Daemon{
		Program: "ovn-controller", Dir: o.ControllerDir, Query: "connection-status", Want: "connected",
		Log: ctrl.Log.WithName("ovn-controller"), Changed: a.changed,
	}
	a.vswitchd = &daemon.Daemon{
		Program: "ovs-vswitchd", Dir: o.SwitchDir, Query: "version",
		Log: ctrl.Log.WithName("ovs-vswitchd"), Changed: a.changed,
	}
	a.ovs = ovndb.NewEngine(ovndb.Config{
		Schema: openvswitch.Schema(), Endpoints: []string{o.OpenVSwitch}, Observer: o.Observer, Log: ctrl.Log.WithName("openvswitch"),
		OnConnect: func(bool) { a.changed() },
		OnRow: func(_ string, row model.Model, event ovndb.RowEvent) {
			if concernsNode(row, event) {
				a.changed()
			}
		},
	}, nil)
	a.attachments = &attach.Attachments{
		Engine: a.ovs, Bridge: func() (string, bool) { return node.Bridge(a.ovs) }, Tombstones: tombstone.Beside(o.Socket),
		Copies: attach.CopiesBeside(o.Socket), Uncopied: a.changed,
	}
	return a
}

// makeNetworks makes what attaches secondary networks to pods.
func (a *agent) makeNetworks(recorder events.EventRecorder, turns *cniserver.Turns, h *attach.Handler) *secondary.Networks {
	o := a.options
	networks := secondary.New(a.running, secondary.Options{API: podapi.Uncached(a.mgr), Ports: h, Attachments: a.attachments,
		Bindings: a.bindings, Turns: turns,
		Events: recorder, MTU: a.state.MTU, Log: ctrl.Log.WithName("networks")})
	if o.Delegates {
		networks.Delegates = &secondary.Delegates{State: filepath.Join(o.State, "networks"),
			BinDirs: []string{o.BinDir}, ConfDir: o.ConfDir, Root: o.Root}
		if o.PodResources != "" {
			networks.Delegates.Devices = kubelet.New(filepath.Join(o.Root, o.PodResources)).Devices
		}
	}
	h.Secondary, h.Collector.Secondary = networks, networks
	return networks
}

// makeHostPorts makes what gives pods random host ports. It binds the ports of the attachments when these change, and
// when their record is read, which is also passed to restored.
func (a *agent) makeHostPorts(h *attach.Handler, restored func()) *hostports.Ports {
	ports := hostports.New(hostports.Options{API: podapi.Uncached(a.mgr), Bindings: a.bindings, Attachments: a.attachments,
		Owner: a.gateway.OwnerOf, Range: a.state.HostPortRange, Log: ctrl.Log.WithName("hostports")})
	h.HostPorts = ports
	moved := a.attachments.Moved
	a.attachments.Moved = func(interfaceID string) {
		ports.Sync()
		moved(interfaceID)
	}
	a.attachments.Restored = func() {
		ports.Sync()
		restored()
	}
	return ports
}

// makeGateway sets the node's gateway, its service reader, and the health that load balancers probe.
func (a *agent) makeGateway(recorder events.EventRecorder) {
	o := a.options
	a.health = gateway.NewProxyHealth(gateway.ProxyHealthOptions{
		Node: a.ownNode, Taken: gateway.ReportTaken(recorder, o.Node), Observe: o.ObserveProgrammed, Synced: o.ObserveSynced, Now: time.Now})
	a.services = gateway.NewServices(a.mgr.GetClient(), a.health, recorder, o.Node, a.changed)
	a.gateway = &gateway.Gateway{
		Node: o.Node, Datapath: Datapath(), OVS: a.ovs, Switch: a.vswitchd, Bindings: a.bindings, Attachments: a.attachments,
		Services: a.services, Health: a.health,
		TooBig:     toobig.New(o.SwitchDir, ctrl.Log.WithName("toobig"), a.later),
		Configured: gateway.Configured(o.Southbound, o.Controller, o.APIServer), Listens: gateway.Listens(o.Listeners),
		APIServer: o.APIServer, Running: a.running,
	}
	a.gateway.Repairs = repairs.New(ctrl.Log.WithName("repairs"), o.ObserveRepair, a.changed,
		func(wait time.Duration) { a.trigger.EnqueueAfter(types.NamespacedName{Name: o.Node}, wait) })
	a.gateway.Init(o.SwitchDir, o.Mover, a.changed, a.later)
	a.gateway.After = func(wait time.Duration) { a.trigger.EnqueueAfter(types.NamespacedName{Name: o.Node}, wait) }
	a.attachments.Moved = func(interfaceID string) {
		if a.gateway.Exposes(interfaceID) {
			a.changed()
		}
	}
}

// ownNode returns the agent's Node from the cache, or nil.
func (a *agent) ownNode(ctx context.Context) *corev1.Node {
	node := &corev1.Node{}
	if err := a.mgr.GetClient().Get(ctx, types.NamespacedName{Name: a.options.Node}, node); err != nil {
		return nil
	}
	return node
}

// Datapath returns this host's datapath: the kernel's if the kernel has one, else userspace. It must not change while
// pods run, because a change would disconnect them.
func Datapath() networkv1alpha1.DatapathType {
	if hostnet.HasKernelDatapath() {
		return networkv1alpha1.DatapathSystem
	}
	return networkv1alpha1.DatapathNetdev
}

// concernsNode reports whether a row belongs to the node itself rather than to one of its pods. It ignores updates of
// br-int's row, because ovn-controller records a zone there for each pod. The engine itself restores Weft's part of
// that row.
func concernsNode(row model.Model, event ovndb.RowEvent) bool {
	switch row := row.(type) {
	case *vswitchdb.OpenvSwitch:
		return true
	case *vswitchdb.Port:
		return ipsec.IsTunnel(row)
	case *vswitchdb.Bridge:
		return event != ovndb.RowUpdated || row.Name != names.IntegrationBridge
	case *vswitchdb.Interface:
		// Host links on a bridge and patch ports have no logical port, and flows contain their OpenFlow port numbers.
		return row.Name == names.ManagementInterface || row.Name == names.EgressInterface ||
			row.ExternalIDs["iface-id"] == "" && (row.Type == "" || row.Type == "patch")
	}
	return false
}

// watchHost enqueues the node when another program changes the links, addresses or routes that the node's state
// depends on: the management port, the uplink, whose MTU limits that of pods, and the link that leads outside.
func (a *agent) watchHost(ctx context.Context) error {
	return hostnet.Watch(ctx, names.ManagementInterface,
		hostnet.Uplinks{Links: a.gateway.Links, Others: a.repairPodLink},
		func() { a.gateway.Repairs.ChangedOf(repairs.Routes, repairs.Rules, repairs.Sysctls) })
}

// repairPodLink restores the host's end of a pod's interface.
func (a *agent) repairPodLink(link netlink.Link) {
	if pod, ok := cni.HostLinkOf(link); ok && pod.ContainerID != "" {
		if err := a.attachments.Repair(pod, a.state.MTU()); err != nil { // the self check reports what stays wrong
			ctrl.Log.WithName("links").Error(err, "cannot repair the link of a pod", "link", pod.Name, "container", pod.ContainerID)
		}
	}
}

func (a *agent) register(r *node.Reconciler) error {
	return ctrl.NewControllerManagedBy(a.mgr).Named("node").
		// No predicate: changes to our own status enqueue the node as well. A status write whose reply was lost
		// arrives as such an event, and the reconciler then reports what it compared with the old status. Ready also
		// depends on the operator's conditions.
		For(&networkv1alpha1.NodeNetwork{}).
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(trigger.Changed(addressesChanged))).
		Watches(&networkv1alpha1.EgressIP{}, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: a.options.Node}}}
		}), builder.WithPredicates(trigger.Changed(func(before, after *networkv1alpha1.EgressIP) bool {
			return !slices.Equal(facts.GrantedEgressAddresses(before), facts.GrantedEgressAddresses(after))
		}))).
		WatchesRawSource(a.trigger).
		WithOptions(controller.Options{RateLimiter: trigger.Retries()}).
		Complete(trigger.QuietConflicts(r))
}

// serve answers CNI requests. It opens the socket at once, before the agent reads tombstones. weft-cni writes a
// tombstone only when nothing listens at the socket, so the agent misses none.
func serve(mgr ctrl.Manager, h *attach.Handler, turns *cniserver.Turns, o Options) error {
	listener, err := cniserver.Listen(o.Socket)
	if err != nil {
		return fmt.Errorf("CNI socket: %w", err)
	}
	server := cniserver.New(h, cniserver.Options{
		Log: ctrl.Log.WithName("cni"), MaxRequests: maxRequests, Turns: turns, RequestTimeout: o.RequestTimeout,
		Observe: func(req cniwire.Request, elapsed time.Duration, err error) {
			o.ObserveRequest(string(req.Command), elapsed, err)
		},
	})
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return server.Keep(ctx, listener, o.Socket) }))
}

// addressesChanged reports whether an update changes the node's addresses. It filters out kubelet's heartbeats.
func addressesChanged(before, after *corev1.Node) bool {
	was, errWas := desired.InternalIP(before)
	is, errIs := desired.InternalIP(after)
	return was != is || (errWas == nil) != (errIs == nil) || !slices.Equal(desired.InternalIPs(before), desired.InternalIPs(after))
}

// addChecks registers /healthz, and /readyz, which fails while pods cannot be attached.
func (a *agent) addChecks() error {
	ready := func(*http.Request) error {
		switch {
		case !a.ovs.Connected():
			return errors.New("Open vSwitch does not answer")
		case !a.bindings.Connected():
			return errors.New("the OVN southbound database is not connected")
		case !a.cni.Written():
			return errors.New("the CNI configuration is not written yet")
		}
		return nil
	}
	return errors.Join(a.mgr.AddHealthzCheck("ping", healthz.Ping), a.mgr.AddReadyzCheck("cni", ready))
}
