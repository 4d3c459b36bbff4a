// Package agent is a node's part of Weft. It never connects to the northbound database: it knows the Kubernetes API (its own
// Node and NodeNetwork), reads its bindings from the southbound database, and writes the local Open_vSwitch database.
//
//	NodeNetwork.spec ─▶ br-int, chassis, management port, routes      ─▶ NodeNetwork.status
//	runtime ─▶ weft-cni ─▶ socket ─▶ veth, OVS Interface ─▶ ovn-installed ─▶ result
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ovn-kubernetes/libovsdb/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/cniserver"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/nodeevents"
	"github.com/weft-network/weft/pkg/cniwire"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/openvswitch"
	"github.com/weft-network/weft/pkg/tombstone"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/vswitchdb"
)

const (
	// countDelay is how long counts in the status may be behind: many pods become one write.
	countDelay = 5 * time.Second
	// undoTimeout bounds what a failed ADD takes back.
	undoTimeout = 10 * time.Second
	// maxRequests lets every connection's request be under way: one that waits for its port costs next to nothing, and must not
	// keep the other pods of the node waiting.
	maxRequests = 512
	// maxLinks bounds the links that are made at once: the kernel makes one after the other anyway, each on a thread of ours.
	maxLinks = 16
	// startGrace is how long an agent that starts on a ready node does not call it unready: it has to connect to the databases
	// first, while pods work as before.
	startGrace = 10 * time.Second
	// statusGrace is Options.StatusGrace where none is given: longer than the replacement of a pod.
	statusGrace = 15 * time.Second
)

// Setup registers the agent's parts with a manager, whose cache should hold only this node's objects.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	o = o.withObservers()
	again := &trigger.Trigger{}
	request := types.NamespacedName{Name: o.Node}
	changed := func() { again.Enqueue(request) }
	counted := func() { again.EnqueueAfter(request, countDelay) }

	r := newNodeReconciler(ctx, mgr.GetClient(), o, changed, counted)
	r.trigger = again
	r.uplinks.later = func() { again.EnqueueAfter(request, lookAgain) }
	if err := r.cni.install(); err != nil {
		return err
	}
	checks := newHealthChecks(ctrl.Log.WithName("healthcheck"))
	r.services = &services{client: mgr.GetClient(), checks: checks, changed: changed, place: desired.Place{Node: o.Node}}
	if err := errors.Join(r.register(mgr), r.services.register(ctx, mgr)); err != nil {
		return err
	}
	recorder, err := nodeevents.NewRecorder(mgr, o.Node)
	if err != nil {
		return err
	}
	r.events = recorder
	turns := cniserver.NewTurns()
	sandboxes := r.watchSandboxes(turns, o, counted)
	if o.Mover != nil {
		o.Mover.Tell(tellNode(recorder, o.Node))
	}
	h := r.handler(sandboxes.collector, recorder, o, counted)
	idle := newIdlers(mgr.GetClient(), recorder)
	r.southbound.demanded = idle.demanded
	r.check = &selfCheck{handler: h, sandboxes: sandboxes, turns: turns, every: o.CheckInterval, tell: failedCheck(recorder),
		observe: o.ObserveFailing, changed: changed}
	if err := serve(mgr, h, turns, o); err != nil {
		return err
	}
	told := &decisions{dir: o.ControllerDir, attachments: r.attachments, log: ctrl.Log.WithName("policy")}
	for _, run := range []manager.RunnableFunc{told.run, r.ovs.Run, r.controller.run, r.vswitchd.run, idle.run, sandboxes.run, r.check.run, r.cni.watch(changed), checks.run, r.services.run(mgr)} {
		if err := mgr.Add(run); err != nil {
			return err
		}
	}
	return errors.Join(r.watchHost(mgr, changed), r.addChecks(mgr))
}

// newNodeReconciler returns the reconciler with its connections; changed asks for a reconciliation, counted for one that may come later.
func newNodeReconciler(running context.Context, c client.Client, o Options, changed, counted func()) *nodeReconciler {
	r := &nodeReconciler{
		client: c, node: o.Node, version: o.Version, state: &nodeState{}, running: running, datapath: Datapath(), started: time.Now(),
		outside: newOutside(o.SwitchDir),
		uplinks: &uplinks{mover: o.Mover, changed: changed}, apiServer: o.APIServer,
		cni:        &cniConfig{socket: o.Socket, confDir: o.ConfDir, binDir: o.BinDir, binSource: o.BinSource},
		southbound: &southbound{remotes: o.Southbound, told: o.Controller, tls: o.TLS, observer: o.Observer, log: ctrl.Log.WithName("southbound"), changed: changed, counted: counted},
		prober:     &prober{running: running, changed: changed},
		controller: &daemon{program: "ovn-controller", dir: o.ControllerDir, ask: "connection-status", want: "connected", log: ctrl.Log.WithName("ovn-controller"), changed: changed},
		vswitchd:   &daemon{program: "ovs-vswitchd", dir: o.SwitchDir, ask: "version", log: ctrl.Log.WithName("ovs-vswitchd"), changed: changed},
	}
	r.ovs = ovndb.NewEngine(ovndb.Config{
		Schema: openvswitch.Schema(), Endpoints: []string{o.OpenVSwitch}, Observer: o.Observer, Log: ctrl.Log.WithName("openvswitch"),
		OnConnect: func(bool) { changed() },
		OnRow: func(_ string, row model.Model, event ovndb.RowEvent) {
			if concernsNode(row, event) {
				changed()
			}
		},
	}, nil)
	r.attachments = &attachments{engine: r.ovs, bridge: r.bridge, tombstones: tombstone.Beside(o.Socket)}
	return r
}

// watchSandboxes makes what removes attachments without a DEL.
func (r *nodeReconciler) watchSandboxes(turns *cniserver.Turns, o Options, counted func()) *sandboxWatch {
	collector := newCollector(r.attachments, turns, o, counted)
	r.attachments.buried = func(a desired.Attachment) { collector.told(a, reasonTombstone) }
	sandboxes := newSandboxWatch(collector, r.southbound, o.Sandboxes)
	r.southbound.unbound = sandboxes.ask
	return sandboxes
}

// handler makes what answers CNI requests.
func (r *nodeReconciler) handler(collector *collector, recorder events.EventRecorder, o Options, counted func()) *cniHandler {
	h := &cniHandler{southbound: r.southbound, attachments: r.attachments, ovs: r.ovs, state: r.state, counted: counted,
		links: make(chan struct{}, maxLinks), collector: collector, controller: r.controller, vswitchd: r.vswitchd, node: o.Node,
		grace:  cmp.Or(o.StatusGrace, statusGrace),
		clocks: newStageClocks(), passed: o.Passed, observe: o.ObserveStage, failed: failedAdd(recorder, o)}
	r.southbound.bound = h.clocks.bound
	return h
}

// Datapath is this host's: the kernel's where it has one. It is chosen once: one that changed under running pods would cut them off.
func Datapath() networkv1alpha1.DatapathType {
	if hostnet.HasKernelDatapath() {
		return networkv1alpha1.DatapathSystem
	}
	return networkv1alpha1.DatapathNetdev
}

// concernsNode reports whether a row is the node's own and not one of its pods'. ovn-controller notes a zone in br-int for
// each pod: what is ours in that row is kept by the engine.
func concernsNode(row model.Model, event ovndb.RowEvent) bool {
	switch row := row.(type) {
	case *vswitchdb.OpenvSwitch:
		return true
	case *vswitchdb.Bridge:
		return event != ovndb.RowUpdated || row.Name != names.IntegrationBridge
	case *vswitchdb.Interface:
		// A link of the host's on a bridge and the end of a patch have no logical port, and their OpenFlow ports are in flows.
		return row.Name == names.ManagementInterface || row.ExternalIDs["iface-id"] == "" && (row.Type == "" || row.Type == "patch")
	}
	return false
}

// watchHost looks again when the management port's link, addresses or routes change behind our back, or those of the uplink, whose MTU
// counts, or of the link that leads outside.
func (r *nodeReconciler) watchHost(mgr ctrl.Manager, changed func()) error {
	uplinks := func() (named []string) {
		for _, link := range []*atomic.Value{&r.uplink, &r.outside.link} {
			if name, _ := link.Load().(string); name != "" {
				named = append(named, name)
			}
		}
		return named
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		return hostnet.Watch(ctx, names.ManagementInterface, uplinks, changed)
	}))
}

func (r *nodeReconciler) register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("node").
		// All its changes, our own status too: one that was written although its reply was lost comes as late as the watch, and what was compared
		// with the status before it is told then. The operator's conditions count in Ready.
		For(&networkv1alpha1.NodeNetwork{}).
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: addressesChanged})).
		WatchesRawSource(r.trigger).
		WithOptions(controller.Options{RateLimiter: trigger.Retries()}).
		Complete(r)
}

// serve answers CNI requests. It listens at once: who finds nobody writes a tombstone, and those are read later.
func serve(mgr ctrl.Manager, h *cniHandler, turns *cniserver.Turns, o Options) error {
	listener, err := cniserver.Listen(o.Socket)
	if err != nil {
		return fmt.Errorf("CNI socket: %w", err)
	}
	server := cniserver.New(h, cniserver.Options{Log: ctrl.Log.WithName("cni"), MaxRequests: maxRequests, Turns: turns, RequestTimeout: o.RequestTimeout,
		Observe: func(req cniwire.Request, elapsed time.Duration, err error) {
			o.ObserveRequest(string(req.Command), elapsed, err)
		}})
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return server.Serve(ctx, listener) }))
}

// addressesChanged leaves the heartbeats of kubelet aside.
func addressesChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	if !ok || !ok2 {
		return true
	}
	was, errWas := internalIP(before)
	is, errIs := internalIP(after)
	return was != is || (errWas == nil) != (errIs == nil) || !slices.Equal(internalIPs(before), internalIPs(after))
}

// addChecks makes /readyz say whether pods can be attached.
func (r *nodeReconciler) addChecks(mgr ctrl.Manager) error {
	ready := func(*http.Request) error {
		switch {
		case !r.ovs.Connected():
			return errors.New("Open vSwitch does not answer")
		case !r.southbound.connected():
			return errors.New("the OVN southbound database is not connected")
		case !r.cni.written():
			return errors.New("the CNI configuration is not written yet")
		}
		return nil
	}
	return errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("cni", ready))
}
