// Package gateway reconciles the nodes' ways out of the cluster: what an agent found of its node's link becomes a gateway router, or
// routes through the management port.
package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

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

	mu sync.Mutex
	// subnets are those of each node whose gateway this process has made.
	subnets map[string][]networkv1alpha1.CIDR
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
	r.remember(&nn)
	applied := r.Database.Apply(ctx, topology.GatewayUnit(facts))
	if refused := (*ovndb.RejectedError)(nil); errors.As(applied, &refused) {
		r.Events.Eventf(&node, nil, corev1.EventTypeWarning, "FailedGateway", "BuildGateway", "%v", applied)
	}
	return ctrl.Result{}, ovndb.IgnorePending(applied)
}

// keep leaves a gateway as it is, to go on to carry traffic; one that was made for other subnets goes, since those may be another node's by now.
func (r *Reconciler) keep(ctx context.Context, nn *networkv1alpha1.NodeNetwork) error {
	r.mu.Lock()
	made, known := r.subnets[nn.Name]
	r.mu.Unlock()
	if !known || slices.Equal(made, nn.Spec.PodSubnets) {
		return nil
	}
	return r.vacate(ctx, nn.Name)
}

func (r *Reconciler) remember(nn *networkv1alpha1.NodeNetwork) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.subnets == nil {
		r.subnets = map[string][]networkv1alpha1.CIDR{}
	}
	r.subnets[nn.Name] = nn.Spec.PodSubnets
}

// vacate takes the rows of a node's gateway away.
func (r *Reconciler) vacate(ctx context.Context, node string) error {
	r.mu.Lock()
	delete(r.subnets, node)
	r.mu.Unlock()
	return ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: topology.GatewayKey(node)}))
}

// Fork returns a reconciler that knows what r knows of the past and works on another world: it leaves r alone.
func (r *Reconciler) Fork(c client.Client, db Database, recorder events.EventRecorder, t *trigger.Trigger) *Reconciler {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &Reconciler{Client: c, Database: db, Events: recorder, Trigger: t, subnets: maps.Clone(r.subnets)}
}
