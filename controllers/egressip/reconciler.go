// Package egressip reconciles EgressIPs: it chooses the nodes that carry their addresses, says so in their status, which is the only record of
// it, and makes rows of what the status says. Pods join the sets of these rows by their own units.
package egressip

import (
	"context"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is what the reconciler needs of the engine.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
	Connected() bool
	// Has reports whether the server has an optional column.
	Has(table, column string) bool
}

// Reconciler reconciles EgressIPs.
type Reconciler struct {
	Client   client.Client
	Database Database
	Events   events.EventRecorder
	Trigger  *trigger.Trigger
	// Reachable reports whether a node answers; nil: every node does.
	Reachable func(node string) bool
	// ServicesByAddress is the index of Services by the addresses that they are balanced on.
	ServicesByAddress string
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.NamespacedName == All {
		for _, request := range r.Every(ctx) {
			r.Trigger.Enqueue(request.NamespacedName)
		}
		return ctrl.Result{}, nil
	}
	var e networkv1alpha1.EgressIP
	if err := r.Client.Get(ctx, req.NamespacedName, &e); apierrors.IsNotFound(err) {
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: topology.EgressIPKey(req.Name)}))
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if !r.Database.Connected() {
		return ctrl.Result{}, nil // what cannot be written is not promised; the connection asks again
	}
	w, err := r.look(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	decided, err := r.decide(ctx, &e, w)
	if err != nil {
		return ctrl.Result{}, err
	}
	// The status comes first: it is the record, of which the rows are made.
	if err := r.record(ctx, &e, decided, isRefused(&e)); err != nil {
		return ctrl.Result{}, err
	}
	facts, err := topology.ParseEgressIP(&e, w.gateways)
	if err != nil { // what the condition says already
		return ctrl.Result{}, nil
	}
	applied := r.Database.Apply(ctx, topology.EgressIPUnit(facts))
	if ovndb.IsPending(applied) {
		return ctrl.Result{}, nil // a router that goes or comes at this moment: it asks again
	}
	if applied == nil {
		return ctrl.Result{}, r.record(ctx, &e, decided, false)
	}
	return ctrl.Result{}, r.refused(ctx, &e, applied)
}

// decision is what becomes of an EgressIP.
type decision struct {
	assigned   []topology.Assignment
	unassigned []topology.Unassigned
	// trouble is what concerns all its addresses; empty: nothing.
	reason, trouble string
	// silent are nodes that carry addresses and do not answer, where none does.
	silent []string
}

// decide chooses the nodes for an EgressIP.
func (r *Reconciler) decide(ctx context.Context, e *networkv1alpha1.EgressIP, w *world) (decision, error) {
	addresses, err := topology.EgressAddresses(e)
	if err == nil {
		_, err = topology.Selects(e, nil, nil)
	}
	if err != nil {
		return decision{reason: networkv1alpha1.ReasonInvalidSpec, trouble: err.Error()}, nil
	}
	if !r.Database.Has(nbdb.NATTable, "match") {
		return decision{reason: networkv1alpha1.ReasonDatabaseSchemaTooOld,
			trouble: "the northbound database's server lacks NAT.match, which egress IPs need: it is older than OVN 24.09"}, nil
	}
	owners := map[netip.Addr]string{}
	for _, a := range addresses {
		if owners[a], err = r.owner(ctx, e, a, w); err != nil {
			return decision{}, err
		}
	}
	var d decision
	carriers := w.carriersFor(e.Name)
	d.assigned, d.unassigned = topology.Assign(addresses, assignmentsOf(e), carriers, func(a netip.Addr) string { return owners[a] })
	if w.allSilent {
		for _, a := range d.assigned {
			d.silent = append(d.silent, a.Node)
		}
	}
	return d, nil
}

// assignmentsOf reads which node carries what.
func assignmentsOf(e *networkv1alpha1.EgressIP) (found []topology.Assignment) {
	for _, item := range e.Status.Items {
		if address, err := item.EgressIP.Addr(); err == nil {
			found = append(found, topology.Assignment{Address: address, Node: item.Node})
		}
	}
	return found
}

// All is the request for every EgressIP: something changed that may concern any. The one who asks need not know the objects: the queue waits
// until they are known.
var All = types.NamespacedName{}
