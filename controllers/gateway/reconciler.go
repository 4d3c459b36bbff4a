// Package gateway reconciles the nodes' ways out of the cluster: what an agent found of its node's link becomes a gateway router, or
// routes through the management port.
package gateway

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is what the reconciler needs of the engine.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
	// RowsOf are what a unit wants, or what the database has of one that was not applied in this process.
	RowsOf(key unit.Key) []unit.Row
}

// Reconciler reconciles a Node's gateway: its request is the node.
type Reconciler struct {
	Client   client.Client
	Database Database
	Events   events.EventRecorder
	Trigger  *trigger.Trigger
	// HasNone reports whether a node has no NodeNetwork and gets none for now.
	HasNone func(node string) bool
	// Looked is called with each node that was reconciled, whatever came of it; it may be nil.
	Looked func(types.NamespacedName)
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
		return ctrl.Result{}, client.IgnoreNotFound(err) // a node's NodeNetwork that was deleted by hand comes back
	}
	if nn.Status.Chassis == "" { // it was made anew, and its agent has not reported yet
		return ctrl.Result{}, r.keep(ctx, &nn)
	}
	usurped, err := r.usurped(ctx, &nn)
	if err != nil {
		return ctrl.Result{}, err
	}
	if told := r.tell(ctx, &nn, usurped); apierrors.IsConflict(told) {
		return ctrl.Result{RequeueAfter: trigger.FirstRetry}, nil // the agent has written meanwhile
	} else if told != nil {
		return ctrl.Result{}, told
	}
	if usurped != "" {
		return ctrl.Result{}, r.keep(ctx, &nn)
	}
	facts, err := topology.ParseGateway(&nn, &node)
	if err != nil {
		r.Events.Eventf(&node, nil, corev1.EventTypeWarning, "FailedGateway", "BuildGateway", "%v", err)
		return ctrl.Result{}, r.keep(ctx, &nn)
	}
	applied := r.Database.Apply(ctx, topology.GatewayUnit(facts))
	if refused := (*ovndb.RejectedError)(nil); errors.As(applied, &refused) {
		r.Events.Eventf(&node, nil, corev1.EventTypeWarning, "FailedGateway", "BuildGateway", "%v", applied)
	}
	return ctrl.Result{}, ovndb.IgnorePending(applied)
}

// keep leaves a gateway as it is, to go on to carry traffic; one that was made for another ID or other subnets goes, since those may be another node's
// by now. While the database is away, nothing is known of what another process made: the sweep asks again.
func (r *Reconciler) keep(ctx context.Context, nn *networkv1alpha1.NodeNetwork) error {
	node, err := topology.ParseNodeNetwork(nn)
	if err != nil || topology.IsGatewayOf(r.Database.RowsOf(topology.GatewayKey(nn.Name)), node) {
		return nil // the node's own controller tells what it cannot read
	}
	return r.vacate(ctx, nn.Name)
}

// vacate takes the rows of a node's gateway away.
func (r *Reconciler) vacate(ctx context.Context, node string) error {
	return ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: topology.GatewayKey(node)}))
}
