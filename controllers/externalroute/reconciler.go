// Package externalroute reconciles ExternalRoutes: it finds the routers of each. The pods' routes are in their own units (package pod),
// the BFD sessions with the routers in the units of nodes' gateways (package gateway).
package externalroute

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// Database is the part of the engine that the reconcilers use.
type Database interface {
	Connected() bool
	// Has reports whether the server has an optional column, once it was connected.
	Has(table, column string) bool
	// Watched lists the BFD sessions of gateway routers. They must not be changed.
	Watched() []*nbdb.BFD
}

// sessionStart is how long a new BFD session may be down before its router counts as down: it exchanges three packets of 0.5 s first.
const sessionStart = 3 * time.Second

// All requests the reconciliation of every ExternalRoute.
var All = types.NamespacedName{}

// Reconciler reconciles ExternalRoutes.
type Reconciler struct {
	Client   client.Client
	Database Database
	Events   events.EventRecorder
	Triggers *trigger.Set
	Now      func() time.Time
	// Reachable reports whether a node's agent responds. The sessions of other nodes say nothing about a router. Nil: all do.
	Reachable func(node string) bool

	starting map[string]time.Time // UUIDs of BFD sessions that are down, and when they were found
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.NamespacedName == All {
		var all networkv1alpha1.ExternalRouteList
		err := r.Client.List(ctx, &all)
		for i := range all.Items {
			r.Triggers.Enqueue(topology.KindExternalRoute, client.ObjectKeyFromObject(&all.Items[i]))
		}
		return ctrl.Result{}, err
	}
	if !r.Database.Connected() {
		return ctrl.Result{}, nil // what the server can store is unknown; the connection enqueues all
	}
	var e networkv1alpha1.ExternalRoute
	if err := r.Client.Get(ctx, req.NamespacedName, &e); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	status, again, err := r.status(ctx, &e)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: again}, r.write(ctx, &e, status)
}

// status computes the status of an ExternalRoute. again is when a session that starts has to be judged; 0: none does.
func (r *Reconciler) status(ctx context.Context, e *networkv1alpha1.ExternalRoute) (
	status networkv1alpha1.ExternalRouteStatus, again time.Duration, err error) {
	status = *e.Status.DeepCopy()
	ready := metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: e.Generation}
	pods, err := r.routers(ctx, e)
	if err != nil {
		return status, 0, err
	}
	var nodes networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return status, 0, err
	}
	hosts, err := kind.Machines(ctx, r.Client)
	if err != nil {
		return status, 0, err
	}
	machines := map[netip.Addr]string{}
	for _, host := range hosts {
		machines[host.Address] = host.Of
	}
	hops, former, unusable, invalid := facts.ChooseNextHops(e, pods, nodes.Items, machines)
	if invalid == nil {
		status.NextHops, status.Former = hops, former
	}
	down, again := r.down(e, status.NextHops)
	status.Down = down.status()
	switch {
	case invalid != nil: // the pods leave as before
		ready.Reason, ready.Message = networkv1alpha1.ReasonInvalidSpec, invalid.Error()
	case !r.Database.Has(nbdb.NATTable, "match"):
		status.NextHops, status.Former, status.Down, ready.Reason = nil, nil, nil, networkv1alpha1.ReasonDatabaseSchemaTooOld
		ready.Message = "the northbound database's server lacks NAT.match, which routers of pods need: it is older than OVN 24.09"
	case len(hops) == 0:
		ready.Reason, ready.Message = networkv1alpha1.ReasonNoNextHop, "no running pod is a router"
		if unusable != nil {
			ready.Message = unusable.Error()
		}
	case unusable != nil:
		ready.Reason, ready.Message = networkv1alpha1.ReasonNextHopsUnusable, errors.Join(unusable, down.err()).Error()
	case len(down) > 0:
		ready.Reason = networkv1alpha1.ReasonNextHopsDown
		ready.Message = fmt.Sprintf("%v; routers in use: %d of %d", down.err(), len(hops)-down.everywhere(), len(hops))
	default:
		ready.Status, ready.Reason = metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected
		ready.Message = fmt.Sprintf("routers in use: %d", len(hops))
		selects, err := kind.SelectsAny(ctx, r.Client, selectsOf(e))
		if err != nil {
			return status, 0, err
		}
		if !selects {
			ready.Message += kind.SelectsNoPod
		}
	}
	ready.Message = health.Cut(strings.ReplaceAll(ready.Message, "\n", "; ")) // of joined errors
	meta.SetStatusCondition(&status.Conditions, ready)
	return status, again, nil
}

// routers lists the pods that may be routers of an ExternalRoute.
func (r *Reconciler) routers(ctx context.Context, e *networkv1alpha1.ExternalRoute) (found []facts.RouterPod, err error) {
	if len(e.Spec.NextHops.Pods) == 0 {
		return nil, nil
	}
	var all corev1.PodList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		pod := &all.Items[i]
		if !facts.MayBeRouter(e, pod) {
			continue
		}
		in, err := kind.NamespaceLabels(ctx, r.Client, pod.Namespace)
		if err != nil {
			return nil, err
		}
		found = append(found, facts.RouterPod{Pod: pod, NamespaceLabels: in})
	}
	return found, nil
}

// write writes a status if it differs, and records an event when it turns bad.
func (r *Reconciler) write(ctx context.Context, e *networkv1alpha1.ExternalRoute, status networkv1alpha1.ExternalRouteStatus) error {
	if equality.Semantic.DeepEqual(e.Status, status) {
		return nil
	}
	before := meta.FindStatusCondition(e.Status.Conditions, networkv1alpha1.ConditionReady)
	ready := meta.FindStatusCondition(status.Conditions, networkv1alpha1.ConditionReady)
	if ready.Status != metav1.ConditionTrue && (before == nil || before.Message != ready.Message) {
		r.Events.Eventf(e, nil, corev1.EventTypeWarning, ready.Reason, "FindRouters", "%s", ready.Message)
	}
	updated := e.DeepCopy()
	updated.Status = status
	return client.IgnoreNotFound(kind.WriteStatus(ctx, r.Client, e, updated))
}
