// Package clusternetwork reconciles the single ClusterNetwork: the cluster-wide rows in the database, and the health of the
// whole network in its status.
package clusternetwork

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
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the part of the engine that the reconciler uses.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
	Connected() bool
	// Wait calls ready at each change of the database or the connection, and returns when ready does.
	Wait(ctx context.Context, ready func() (bool, error)) error
	// Refused returns why this process must not write the connected database, or nil.
	Refused() error
	// Failure returns why the last attempt to connect failed. It returns nil while connected, and before an attempt failed.
	Failure() error
	// Drifts returns the foreign changes.
	Drifts() ovndb.DriftReport
	// ReportOnly switches the repair of foreign changes off or on.
	ReportOnly(on bool)
}

// Addresses counts the addresses in use within a network. ok is false until they are known.
type Addresses interface {
	Used(network netip.Prefix) (used int64, ok bool)
	// Outdated counts the owners whose addresses differ from a new pod's, and returns the first of them.
	Outdated(limit int) (total int, first []alloc.Outdated)
}

const (
	// firstConnection is the default of Settings.FirstConnection.
	firstConnection = 5 * time.Second
	// firstCopy is how many of these intervals the first status waits while no attempt to connect has failed: the process
	// copies the database. Together they are shorter than the time after which a leader without a database resigns.
	firstCopy = 5
)

// nodeDelay is how long the status may lag behind events of nodes. A report reads all nodes, and each node that joins
// causes several events.
const nodeDelay = 100 * time.Millisecond

// cacheLag is how long the cache may lack our last write. After a restore of the API server from a copy, it would
// lack it for ever.
const cacheLag = 10 * time.Second

// Reconciler reconciles the ClusterNetwork.
type Reconciler struct {
	Client client.Client
	// Floating has the addresses of deleted pools that are still in use.
	Floating  *claim.Claimer
	Database  Database
	Addresses Addresses
	Events    events.EventRecorder
	Observed  kind.Observed
	Settings  kind.Settings
	Zone      kind.Zone
	// Policies lists the policies of network-policy-api.
	Policies func(ctx context.Context) ([]metav1.Object, error)

	started            sync.Once
	first              sync.Once
	written            string                       // resource version of the ClusterNetwork with our last status
	wroteAt            time.Time                    // time of that write
	earlier            *networkv1alpha1.DriftStatus // from the status before this process
	reportedDrift      int64                        // number of foreign changes that events reported
	reportedViolations []invariant.Violation        // violations that events reported
	// announced are the conditions that events reported. Before the first event they are the status's conditions.
	announced []metav1.Condition
}

// Reconcile implements reconcile.Reconciler. Without a ClusterNetwork everything stays unchanged.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cn networkv1alpha1.ClusterNetwork
	if err := r.Client.Get(ctx, req.NamespacedName, &cn); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.setDriftMode(&cn)
	if r.Zone.Follows() {
		return ctrl.Result{}, r.follow(ctx, &cn)
	}
	plan, invalid, err := r.judge(ctx, &cn) // nodes wait for it, whether or not the database is connected
	if apierrors.IsConflict(err) || errors.Is(err, errBehind) {
		return ctrl.Result{RequeueAfter: trigger.FirstRetry}, nil
	} else if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.started.Do(func() { r.awaitConnection(ctx) })
	applied := r.Database.Refused()
	if invalid == nil && applied == nil {
		if applied = r.apply(ctx, &cn, plan); ovndb.IsPending(applied) {
			applied = nil // the status reports that the database is away; the engine retries by itself
		}
	}
	if invalid == nil {
		// nodes stay unchanged; cluster-wide settings are applied
		invalid = errors.Join(facts.CheckGateway(cn.Spec.Gateway), facts.CheckPhysicalNetworks(cn.Spec.PhysicalNetworks))
	}
	if err := r.report(ctx, &cn, plan, invalid, applied); apierrors.IsConflict(err) || errors.Is(err, errBehind) {
		return ctrl.Result{RequeueAfter: trigger.FirstRetry}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if refused := r.Database.Refused(); refused != nil {
		return ctrl.Result{}, nil // the next connection enqueues it again
	}
	return ctrl.Result{}, applied
}

// follow applies the rows of the networks that the cluster's operator has judged.
func (r *Reconciler) follow(ctx context.Context, cn *networkv1alpha1.ClusterNetwork) error {
	if facts.AwaitsJudgement(cn) || r.Database.Refused() != nil {
		return nil // a change of the status, or the next connection, enqueues it again
	}
	plan, err := facts.PlanInForce(cn)
	if err != nil {
		return nil // the cluster's operator reports it
	}
	if plan.Pending { // without a Node, networks are not judged at all
		var nodes corev1.NodeList
		if err := r.Client.List(ctx, &nodes); err != nil || len(nodes.Items) > 0 {
			return err
		}
	}
	return ovndb.IgnorePending(r.apply(ctx, cn, plan))
}

// awaitConnection returns when the database is connected or refused, or after a delay. The delay is longer while no attempt
// to connect has failed, so that a slow copy of the database is not reported as an outage.
func (r *Reconciler) awaitConnection(ctx context.Context) {
	known := func() bool { return r.Database.Connected() || r.Database.Refused() != nil }
	limit := cmp.Or(r.Settings.FirstConnection, firstConnection)
	if !r.await(ctx, limit, known) {
		r.await(ctx, (firstCopy-1)*limit, func() bool { return known() || r.Database.Failure() != nil })
	}
}

// await reports whether the database came into a state within a time.
func (r *Reconciler) await(ctx context.Context, limit time.Duration, reached func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return r.Database.Wait(ctx, func() (bool, error) { return reached(), nil }) == nil && reached()
}

func (r *Reconciler) apply(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, plan facts.Plan) error {
	var system corev1.Namespace
	if err := r.Client.Get(ctx, types.NamespacedName{Name: "kube-system"}, &system); err != nil {
		return fmt.Errorf("identity of the cluster: %w", err)
	}
	if !r.Zone.Follows() { // a zone has no floating addresses
		var err error
		if plan.Floating, err = r.floating(ctx); err != nil {
			return err
		}
	}
	var routes networkv1alpha1.ExternalRouteList
	if err := r.Client.List(ctx, &routes); err != nil {
		return err
	}
	plan.Routed = len(routes.Items) > 0
	read := plan.Network(r.Zone.Database(string(system.UID)))
	read.Clustered = facts.Clustered(cn, networkv1alpha1.ZoneName(r.Zone))
	return r.Database.Apply(ctx, topology.NetworkUnit(read))
}

// floating returns the addresses that IPPools give to pods.
func (r *Reconciler) floating(ctx context.Context) ([]netip.Prefix, error) {
	var pools networkv1alpha1.IPPoolList
	if err := r.Client.List(ctx, &pools); err != nil {
		return nil, err
	}
	if err := r.Floating.Load(ctx); err != nil {
		return nil, err
	}
	return r.Floating.Book.Overlay(pools.Items), nil
}

// report writes the status if it differs.
func (r *Reconciler) report(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, plan facts.Plan, invalid, applied error) error {
	var nodes corev1.NodeList
	// a report only reads, and each node that joins causes a report
	if err := r.Client.List(ctx, &nodes); err != nil {
		return err
	}
	var networks networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &networks); err != nil {
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
	objects, err := r.objects(ctx)
	if err != nil {
		return err
	}
	apiServers, err := r.apiServers(ctx)
	if err != nil {
		return err
	}
	drift, found := r.drift(cn)
	want := status(cn, statusInput{
		plan: plan, invalid: invalid, applied: applied, connected: r.Database.Connected(),
		nodes: nodes.Items, networks: networks.Items, used: r.Addresses.Used, drift: drift, violations: r.violations(),
		mtu: mtuMismatch(cn, networks.Items), services: serviceMismatch(plan, services),
		refused: r.Database.Refused(), silent: r.silent(), late: r.late(), unwritable: ovndb.IsWriteFailure(r.Database.Failure()),
		agents: agents, version: r.Settings.Version,
		rollout: cn.Status.Rollout, databases: cn.Status.Databases,
		relays: cn.Status.Relays, wanted: cn.Spec.Databases.Relays.Count, wantedZones: cn.Spec.Zones, zones: cn.Status.Zones,
		objects: objects, unreached: r.unreached(), held: facts.HeldNetworks(cn.Status.Networks),
		apiServers: apiServers, leaving: facts.LeavingNetworks(cn.Status.Networks), outdated: outdatedPods(r.Addresses),
	})
	if r.Settings.Reported != nil {
		r.Settings.Reported(health.Severities(want.Areas), int(want.Nodes.Ready), int(want.Nodes.Total), health.Waits(objects))
	}
	r.recordDrift(cn, found)
	r.recordViolations(cn)
	if equality.Semantic.DeepEqual(want, cn.Status) {
		r.recordConditions(cn, want.Conditions)
		return nil
	}
	if r.isBehind(cn) {
		return errBehind
	}
	before := kind.Detach(cn)
	cn.Status = want
	// The patch fails if the status was computed from a cache without our last write. Otherwise it could keep the
	// fields of that write.
	if err := kind.WriteStatus(ctx, r.Client, before, cn); err != nil {
		return err
	}
	r.written, r.wroteAt = cn.ResourceVersion, time.Now()
	r.recordMTU(before, want.MTU)
	r.recordConditions(cn, want.Conditions)
	return nil
}

// errBehind means that the cache lacks our last status, so that another write may or may not be necessary.
var errBehind = errors.New("the cache lacks the last status")

func (r *Reconciler) isBehind(cn *networkv1alpha1.ClusterNetwork) bool {
	order, err := resourceversion.CompareResourceVersion(cn.ResourceVersion, r.written)
	return err == nil && order < 0 && time.Since(r.wroteAt) < cacheLag
}

func (r *Reconciler) silent() string {
	if r.Observed.Silent == nil {
		return ""
	}
	return r.Observed.Silent()
}

func (r *Reconciler) late() time.Time {
	if r.Observed.Late == nil {
		return time.Time{}
	}
	return r.Observed.Late()
}

func (r *Reconciler) unreached() []string {
	if r.Observed.Unreached == nil {
		return nil
	}
	return r.Observed.Unreached()
}

// specOrStatusChanged passes updates of a ClusterNetwork by other programs: of its spec, of the upgrade, of the
// databases' members, relays and zones, and of its removal.
func specOrStatusChanged(before, after *networkv1alpha1.ClusterNetwork) bool {
	return before.Generation != after.Generation ||
		!equality.Semantic.DeepEqual(before.Status.Rollout, after.Status.Rollout) ||
		!equality.Semantic.DeepEqual(before.Status.Databases, after.Status.Databases) ||
		!slices.Equal(before.Status.Relays, after.Status.Relays) ||
		!equality.Semantic.DeepEqual(before.Status.Zones, after.Status.Zones) ||
		!equality.Semantic.DeepEqual(health.RemovalOf(before), health.RemovalOf(after))
}

// after enqueues the ClusterNetwork with a delay. The events of that time become one report.
func after(delay time.Duration) handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(q queue) { q.AddAfter(reconcile.Request{NamespacedName: Name}, delay) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { enqueue(q) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { enqueue(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { enqueue(q) },
	}
}

// lossChanged passes updates of a Node that change whether it is lost, or its addresses.
func lossChanged(before, after *corev1.Node) bool {
	return facts.IsSilent(before) != facts.IsSilent(after) || addressesChanged(before, after)
}

// healthChanged passes updates of a NodeNetwork that affect the ClusterNetwork's status.
func healthChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return isReady(before.Status.Conditions) != isReady(after.Status.Conditions) ||
		versionsOf(before.Status) != versionsOf(after.Status) ||
		!slices.Equal(health.Node(before.Name, before.Status.Conditions), health.Node(after.Name, after.Status.Conditions)) ||
		before.Status.LinkMTU != after.Status.LinkMTU || before.Status.EncapIP != after.Status.EncapIP ||
		!equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway) ||
		!slices.Equal(before.Spec.PodSubnets, after.Spec.PodSubnets) ||
		!slices.Equal(before.Spec.ClusterSubnets, after.Spec.ClusterSubnets) || facts.MoveState(before) != facts.MoveState(after)
}
