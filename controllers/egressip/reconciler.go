// Package egressip reconciles EgressIPs. It chooses the nodes that carry their addresses, records them in the status,
// which is the only record, and builds rows from the status. Pods join the sets of these rows by their own units.
package egressip

import (
	"context"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/addressprobe"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the part of the engine that the reconciler uses.
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
	Triggers *trigger.Set
	// Reachable reports whether a node responds. If it is nil, every node counts as reachable.
	Reachable func(node string) bool
	// ServicesByAddress is the index of Services by the addresses that they are balanced on.
	ServicesByAddress string
	Zone              kind.Zone
	// Floating has the addresses of NAT pools that are in use.
	Floating *claim.Claimer
	// Planning means that no address waits for a probe, because a plan shows the result.
	Planning bool
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.NamespacedName == All {
		for _, request := range r.Every(ctx) {
			r.Triggers.Enqueue(topology.KindEgressIP, request.NamespacedName)
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
		// the status must not promise what cannot be written; a connection enqueues it again
		return ctrl.Result{}, kind.ErrLater
	}
	w, err := r.readWorld(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if r.Zone.Follows() {
		read, err := facts.ParseEgressIP(&e, w.gateways)
		if err != nil { // the condition has the error
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, topology.EgressIPUnit(read)))
	}
	decided, err := r.decide(ctx, &e, w)
	if err != nil {
		return ctrl.Result{}, err
	}
	// The status comes first, because it is the record from which the rows are built.
	if err := r.record(ctx, &e, decided, isRefused(&e)); err != nil {
		return ctrl.Result{}, err
	}
	read, err := facts.ParseEgressIP(&e, w.gateways)
	if err != nil { // the condition has the error already
		return ctrl.Result{}, nil
	}
	applied := r.Database.Apply(ctx, topology.EgressIPUnit(read))
	if ovndb.IsPending(applied) {
		return ctrl.Result{}, nil // a router is being added or removed, and enqueues it again
	}
	if applied == nil {
		return ctrl.Result{}, r.record(ctx, &e, decided, false)
	}
	return ctrl.Result{}, r.refused(ctx, &e, applied)
}

// decision is the result of reconciling an EgressIP.
type decision struct {
	assigned   []facts.Assignment
	unassigned []facts.Unassigned
	kept       []netip.Addr // former addresses that stay in use
	probing    []netip.Addr // addresses that nodes probe, because no node carries them
	// reason and trouble describe a problem of all its addresses. They are empty without one.
	reason, trouble string
	// selectsNone means that the selectors select no pod.
	selectsNone bool
	// silent are nodes that carry addresses and do not respond while no node responds.
	silent []string
}

// decide chooses the nodes for an EgressIP.
func (r *Reconciler) decide(ctx context.Context, e *networkv1alpha1.EgressIP, w *world) (decision, error) {
	addresses, err := facts.EgressAddresses(e)
	if err == nil {
		_, err = facts.Selects(e, nil, nil)
	}
	if err != nil {
		return decision{reason: networkv1alpha1.ReasonInvalidSpec, trouble: err.Error()}, nil
	}
	if !r.Database.Has(nbdb.NATTable, "match") {
		return decision{reason: networkv1alpha1.ReasonDatabaseSchemaTooOld,
			trouble: "the northbound database's server lacks NAT.match, which egress IPs need: it is older than OVN 24.09"}, nil
	}
	owners, former := map[netip.Addr]string{}, facts.FormerEgressAddresses(e)
	for _, a := range slices.Concat(addresses, former) {
		if owners[a], err = r.owner(ctx, e, a, w); err != nil {
			return decision{}, err
		}
	}
	var d decision
	waits := map[netip.Addr]bool{}
	for _, a := range addresses {
		if owners[a] == "" && !isCarried(e, a) { // a foreign host takes no address away
			owners[a], waits[a] = r.probed(a, w)
			if w.probes.CanProbe(a) {
				d.probing = append(d.probing, a)
			}
		}
	}
	d.assigned, d.unassigned, d.kept = facts.AssignEgressIPs(addresses, former, assignmentsOf(e), w.carriersFor(e.Name),
		func(a netip.Addr) string { return owners[a] })
	// An address that no node can carry stays probed. Its result would otherwise end with its request, and cause the next request.
	d.probing = slices.DeleteFunc(d.probing, func(a netip.Addr) bool {
		return slices.ContainsFunc(d.assigned, func(assigned facts.Assignment) bool { return assigned.Address == a })
	})
	for i, u := range d.unassigned {
		if waits[u.Address] {
			d.unassigned[i].Reason = networkv1alpha1.ReasonProbing
		}
	}
	selects, err := kind.SelectsAny(ctx, r.Client, selectsOf(e))
	if err != nil {
		return decision{}, err
	}
	d.selectsNone = !selects
	if w.allSilent {
		for _, a := range d.assigned {
			d.silent = append(d.silent, a.Node)
		}
	}
	return d, nil
}

// probed returns why a foreign host's use of an address, or the wait for its probe, keeps the address from being assigned.
func (r *Reconciler) probed(a netip.Addr, w *world) (why string, waits bool) {
	switch v, mac := w.probes.Of(a); {
	case v == addressprobe.Foreign:
		return "a host of the nodes' segment that is no node has it, with MAC " + mac, false
	case v == addressprobe.Waits && !r.Planning:
		return "a node probes its segment for a host that has it", true
	}
	return "", false
}

// assignmentsOf reads from the status which node carries which address.
func assignmentsOf(e *networkv1alpha1.EgressIP) (found []facts.Assignment) {
	for _, item := range e.Status.Items {
		if address, err := item.EgressIP.Addr(); err == nil {
			found = append(found, facts.Assignment{Address: address, Node: item.Node})
		}
	}
	return found
}

// All is the request for every EgressIP. The caller need not list the objects: the queue waits until they are cached.
var All = types.NamespacedName{}
