// Package network reconciles the one ClusterNetwork: the cluster-wide rows in the database, and the health of the whole
// network in its status.
package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Name is the request of this controller: there is one ClusterNetwork.
var Name = types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}

// Database is what the reconciler needs of the engine.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
	Connected() bool
	// Wait returns when ready does, looking again at each change of the database or the connection.
	Wait(ctx context.Context, ready func() (bool, error)) error
	// Refused says why the database that answers is not ours to write; nil if it is, or if none answers.
	Refused() error
	// Drifts tells what somebody else changed.
	Drifts() ovndb.DriftReport
	// ReportOnly says whether that is left as it is.
	ReportOnly(on bool)
}

// Addresses counts the addresses in use within a network; ok is false while that is not known.
type Addresses interface {
	Used(network netip.Prefix) (used int64, ok bool)
}

// firstConnection is Reconciler.FirstConnection where none is given.
const firstConnection = 5 * time.Second

// nodeDelay is how long what happens to nodes may be behind in the status: a report looks at all of them, and each that joins asks for some.
const nodeDelay = 100 * time.Millisecond

// cacheLag is for how long the cache may be expected to lack what was written; an API server that was restored from a copy lacks it for ever.
const cacheLag = 10 * time.Second

// Reconciler reconciles the ClusterNetwork.
type Reconciler struct {
	Client    client.Client
	Database  Database
	Addresses Addresses
	Events    events.EventRecorder
	Trigger   *trigger.Trigger
	// FirstConnection is how long the first report waits for the database: a start is no outage. 0 is 5 s.
	FirstConnection time.Duration
	// Violations tells which invariants do not hold; nil: nobody looks.
	Violations func() []invariant.Violation
	// Silent says what ovn-northd does not answer, empty if it did when it was asked last; nil: nobody asks it.
	Silent func() string
	// Unreached are the nodes that do not answer through the network; nil: nobody asks them.
	Unreached func() []string
	// CountDelay is how long counts may be behind.
	CountDelay time.Duration
	// Namespace is where the pods of agents are; empty: they are not looked at.
	Namespace string
	// Version is the operator's.
	Version string
	// Reported is told of each status: states by area, and nodes; nil: nobody is.
	Reported func(areas map[string]int, ready, total int)
	// Announce makes an event of each change of a condition.
	Announce bool

	started sync.Once
	first   sync.Once
	written string                       // resource version of the ClusterNetwork with our last status
	wroteAt time.Time                    // when that was
	earlier *networkv1alpha1.DriftStatus // what the status said before this process
	told    int64                        // differences that events told of
	known   []invariant.Violation        // those that an event told of
	// announced are the conditions that events told of; before the first, those that the status had.
	announced []metav1.Condition
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	toNetwork := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: Name}}
	})
	soon := after(nodeDelay)
	controlled := ctrl.NewControllerManagedBy(mgr).Named("network")
	if servesServiceCIDRs(mgr.GetRESTMapper()) {
		controlled = controlled.Watches(&networkingv1.ServiceCIDR{}, toNetwork)
	}
	if r.Namespace != "" {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, byAgent, r.indexAgent); err != nil {
			return err
		}
		controlled = controlled.Watches(&corev1.Pod{}, toNetwork, builder.WithPredicates(r.agentsOnly()))
	}
	return controlled.
		For(&networkv1alpha1.ClusterNetwork{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: askedChanged})).
		// What somebody else wrote into the status goes; our own writes come back here too, and counts may have changed meanwhile.
		Watches(&networkv1alpha1.ClusterNetwork{}, after(r.CountDelay), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false }})).
		Watches(&networkv1alpha1.NodeNetwork{}, soon, builder.WithPredicates(predicate.Funcs{UpdateFunc: healthChanged})).
		Watches(&corev1.Node{}, soon, builder.WithPredicates(predicate.Funcs{UpdateFunc: lossChanged})).
		Watches(&networkv1alpha1.EgressIP{}, soon, builder.WithPredicates(predicate.Funcs{UpdateFunc: assignedChanged})).
		WatchesRawSource(r.Trigger).
		WithOptions(controller.Options{RateLimiter: trigger.Retries()}).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler. Without a ClusterNetwork everything stays as it is.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cn networkv1alpha1.ClusterNetwork
	if err := r.Client.Get(ctx, req.NamespacedName, &cn); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.setDriftMode(&cn)
	r.started.Do(func() { r.awaitConnection(ctx) })
	plan, invalid := topology.ParseClusterNetwork(&cn)
	applied := r.Database.Refused()
	if invalid == nil && applied == nil {
		if applied = r.apply(ctx, plan); ovndb.IsPending(applied) {
			applied = nil // the status says that the database is away; the engine goes on by itself
		}
	}
	if invalid == nil {
		invalid = topology.CheckGateway(cn.Spec.Gateway) // nodes stay as they are; what is the whole cluster's is applied
	}
	if err := r.report(ctx, &cn, plan, invalid, applied); apierrors.IsConflict(err) || errors.Is(err, errBehind) {
		return ctrl.Result{RequeueAfter: trigger.FirstRetry}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if refused := r.Database.Refused(); refused != nil {
		return ctrl.Result{}, nil // the next connection asks again
	}
	return ctrl.Result{}, applied
}

// awaitConnection returns when the database is connected or refused, or after a while.
func (r *Reconciler) awaitConnection(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.FirstConnection, firstConnection))
	defer cancel()
	_ = r.Database.Wait(ctx, func() (bool, error) { return r.Database.Connected() || r.Database.Refused() != nil, nil })
}

func (r *Reconciler) apply(ctx context.Context, plan topology.Plan) error {
	var system corev1.Namespace
	if err := r.Client.Get(ctx, types.NamespacedName{Name: "kube-system"}, &system); err != nil {
		return fmt.Errorf("identity of the cluster: %w", err)
	}
	return r.Database.Apply(ctx, topology.NetworkUnit(plan.Network(string(system.UID))))
}

// report writes the status if it differs.
func (r *Reconciler) report(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, plan topology.Plan, invalid, applied error) error {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil { // a report only reads, and each node that joins asks for one
		return err
	}
	var networks networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &networks, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	services, err := r.serviceCIDRs(ctx)
	if err != nil {
		return err
	}
	agents, err := r.agents(ctx)
	if err != nil {
		return err
	}
	var egress networkv1alpha1.EgressIPList
	if err := r.Client.List(ctx, &egress, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	drift, found := r.drift(cn)
	want := status(cn, facts{
		plan: plan, invalid: invalid, applied: applied, connected: r.Database.Connected(),
		nodes: nodes.Items, networks: networks.Items, used: r.Addresses.Used, drift: drift, violations: r.violations(),
		mtu: mtuMismatch(cn.Spec.MTU, networks.Items), services: serviceMismatch(plan, services),
		refused: r.Database.Refused(), silent: r.silent(), agents: agents, version: r.Version, rollout: cn.Status.Rollout, databases: cn.Status.Databases,
		egress: egress.Items, unreached: r.unreached(),
	})
	if r.Reported != nil {
		r.Reported(health.Severities(want.Areas), int(want.Nodes.Ready), int(want.Nodes.Total))
	}
	r.tellDrift(cn, found)
	r.tellViolations(cn)
	if equality.Semantic.DeepEqual(want, cn.Status) {
		r.tellConditions(cn, want.Conditions)
		return nil
	}
	if r.isBehind(cn) {
		return errBehind
	}
	before := cn.DeepCopy()
	cn.Status = want
	// One that was computed from a cache without our last write would leave what that changed and this does not.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, cn, patch); err != nil {
		return err
	}
	r.written, r.wroteAt = cn.ResourceVersion, time.Now()
	r.tellMTU(before, want.MTU)
	r.tellConditions(cn, want.Conditions)
	return nil
}

// errBehind: the cache lacks our last status, so that it is not known whether another is needed.
var errBehind = errors.New("the cache lacks the last status")

func (r *Reconciler) isBehind(cn *networkv1alpha1.ClusterNetwork) bool {
	order, err := resourceversion.CompareResourceVersion(cn.ResourceVersion, r.written)
	return err == nil && order < 0 && time.Since(r.wroteAt) < cacheLag
}

func (r *Reconciler) silent() string {
	if r.Silent == nil {
		return ""
	}
	return r.Silent()
}

func (r *Reconciler) unreached() []string {
	if r.Unreached == nil {
		return nil
	}
	return r.Unreached()
}

// askedChanged lets the updates of a ClusterNetwork pass that others make: of its spec, of the upgrade, and of the databases' members.
func askedChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.ClusterNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.ClusterNetwork)
	return !ok || !ok2 || before.Generation != after.Generation || !equality.Semantic.DeepEqual(before.Status.Rollout, after.Status.Rollout) ||
		!equality.Semantic.DeepEqual(before.Status.Databases, after.Status.Databases)
}

// after asks for a report a while after each event: the events of that time become one.
func after(delay time.Duration) handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	ask := func(q queue) { q.AddAfter(reconcile.Request{NamespacedName: Name}, delay) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { ask(q) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { ask(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { ask(q) },
	}
}

// lossChanged lets the updates of a Node pass by which it is lost or found again.
func lossChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	return !ok || !ok2 || isLost(before) != isLost(after)
}

// healthChanged lets the updates of a NodeNetwork pass that ClusterNetwork's status speaks of.
func healthChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.NodeNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.NodeNetwork)
	if !ok || !ok2 {
		return true
	}
	return isReady(before.Status.Conditions) != isReady(after.Status.Conditions) || versionsOf(before.Status) != versionsOf(after.Status) ||
		!slices.Equal(health.Node(before.Name, before.Status.Conditions), health.Node(after.Name, after.Status.Conditions)) || before.Status.LinkMTU != after.Status.LinkMTU || before.Status.EncapIP != after.Status.EncapIP ||
		len(before.Spec.PodSubnets) != len(after.Spec.PodSubnets) || topology.MoveState(before) != topology.MoveState(after)
}
