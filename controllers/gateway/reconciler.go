// Package gateway reconciles the nodes' connections to the outside. The link that a node's agent found becomes a
// gateway router, or routes through the management port.
package gateway

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the part of the engine that the reconciler uses.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
	// RowsOf returns a unit's rows, or the database's rows of a unit that this process has not applied.
	RowsOf(key unit.Key) (rows []unit.Row, known bool)
	// Unit returns the unit of a key as this process wants it. It is empty if none was applied.
	Unit(key unit.Key) unit.Unit
}

// Reconciler reconciles a Node's gateway. Its request is the node.
type Reconciler struct {
	Client   client.Client
	Database Database
	Events   events.EventRecorder
	// HasNone reports whether a node has no NodeNetwork and gets none for now.
	HasNone func(node string) bool
	// Restore returns when the pods' Addresses are known.
	Restore   func(context.Context) error
	Addresses *alloc.Allocator
	Zone      kind.Zone
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var node corev1.Node
	if err := r.Client.Get(ctx, req.NamespacedName, &node); apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.vacate(ctx, req.Name)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	var nn networkv1alpha1.NodeNetwork
	if err := r.Client.Get(ctx, req.NamespacedName, &nn); apierrors.IsNotFound(err) && r.HasNone(req.Name) {
		return ctrl.Result{}, r.vacate(ctx, req.Name)
	} else if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // a NodeNetwork that was deleted by hand is recreated
	}
	if nn.Status.Chassis == "" { // it was recreated, and its agent has not reported yet
		return ctrl.Result{}, r.keep(ctx, &nn)
	}
	reason, usurped := networkv1alpha1.ReasonNetworkOverlapsNodes, facts.OverlapOfGateway(&nn)
	if usurped == "" {
		var err error
		if usurped, err = r.usurped(ctx, &nn); err != nil {
			return ctrl.Result{}, err
		}
		reason = networkv1alpha1.ReasonAddressConflict
	}
	if reportErr := r.report(ctx, &nn, reason, usurped); apierrors.IsConflict(reportErr) {
		return ctrl.Result{RequeueAfter: trigger.FirstRetry}, nil // the agent has written meanwhile
	} else if reportErr != nil {
		return ctrl.Result{}, reportErr
	}
	if usurped != "" {
		return ctrl.Result{}, r.keep(ctx, &nn)
	}
	read, err := facts.ParseGateway(&nn, &node)
	if err != nil {
		r.Events.Eventf(&node, nil, corev1.EventTypeWarning, "FailedGateway", "BuildGateway", "%v", err)
		return ctrl.Result{}, r.keep(ctx, &nn)
	}
	if err := r.addLeaving(ctx, &read); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.addRouted(ctx, &nn, &read); err != nil {
		return ctrl.Result{}, err
	}
	want := topology.GatewayUnit(read)
	if r.Zone.Elsewhere(&nn) {
		want = topology.Elsewhere(want)
	}
	applied := r.Database.Apply(ctx, want)
	if refused := (*ovndb.RejectedError)(nil); errors.As(applied, &refused) {
		r.Events.Eventf(&node, nil, corev1.EventTypeWarning, "FailedGateway", "BuildGateway", "%v", applied)
		// Two nodes that exchanged their IDs or subnets would wait for each other's rows for ever.
		return ctrl.Result{}, errors.Join(applied, r.keep(ctx, &nn))
	}
	return ctrl.Result{}, ovndb.IgnorePending(applied)
}

// keep leaves a gateway unchanged, so that it continues to carry traffic. It removes a gateway with another ID or
// other subnets, because another node may have these now, and what this database had of the gateway while the node was
// in another zone. While the database is away, rows of another process are unknown: the sweep enqueues the node again.
func (r *Reconciler) keep(ctx context.Context, nn *networkv1alpha1.NodeNetwork) error {
	key := topology.GatewayKey(nn.Name)
	if r.Zone.Elsewhere(nn) || topology.IsElsewhere(r.Database.Unit(key)) {
		return r.vacate(ctx, nn.Name) // the gateway carries no traffic here
	}
	node, err := facts.ParseNodeNetwork(nn)
	if err != nil {
		return nil // the node's own controller reports the error
	}
	if rows, known := r.Database.RowsOf(key); !known || topology.IsGatewayOf(rows, node) {
		return nil
	}
	return r.vacate(ctx, nn.Name)
}

// vacate removes the rows of a node's gateway.
func (r *Reconciler) vacate(ctx context.Context, node string) error {
	return ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: topology.GatewayKey(node)}))
}
