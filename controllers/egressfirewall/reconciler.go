package egressfirewall

import (
	"context"
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/acllog/annotation"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the part of the engine that the reconcilers use.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
	// Wanted reports whether a non-empty unit was applied.
	Wanted(key unit.Key) bool
}

// Names has the answers of name servers.
type Names interface {
	Known(name string) (addresses []netip.Addr, queried bool, err error)
}

// Reconciler reconciles EgressFirewalls.
type Reconciler struct {
	Client   client.Client
	Database Database
	Names    Names
	Events   events.EventRecorder
	Triggers *trigger.Set
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.Name != networkv1alpha1.EgressFirewallName {
		return ctrl.Result{}, nil // the API server refuses other names
	}
	var firewall networkv1alpha1.EgressFirewall
	if err := r.Client.Get(ctx, req.NamespacedName, &firewall); apierrors.IsNotFound(err) {
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: topology.EgressFirewallKey(req.Namespace)}))
	} else if err != nil {
		return ctrl.Result{}, err
	}
	clusters, err := r.clusters(ctx)
	if err != nil || clusters == nil {
		return ctrl.Result{}, err
	}
	read, invalid := facts.ParseEgressFirewall(&firewall, clusters)
	if r.awaits(topology.EgressFirewallSets(read)) {
		return ctrl.Result{}, nil
	}
	if read.Logging, err = annotation.Of(ctx, r.Client, r.Events, &firewall); err != nil {
		return ctrl.Result{}, err
	}
	applied := r.Database.Apply(ctx, topology.EgressFirewallUnit(read))
	return ctrl.Result{}, errors.Join(ovndb.IgnorePending(applied), r.report(ctx, &firewall, invalid, applied))
}

// clusters returns the networks of pods, or nil without a readable ClusterNetwork. Its creation enqueues the
// firewalls.
func (r *Reconciler) clusters(ctx context.Context) ([]netip.Prefix, error) {
	var cn networkv1alpha1.ClusterNetwork
	if err := r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	plan, err := facts.PlanInForce(&cn)
	if err != nil || facts.AwaitsJudgement(&cn) {
		return nil, nil // the ClusterNetwork's own condition has the reason, and its judgement enqueues the firewalls
	}
	return plan.PodNetworks(), nil
}

// awaits enqueues the sets that were never applied, and reports whether there are any. Rules are applied after their
// sets, because OVN ignores a rule with an absent set. The set's reconciler then enqueues the firewall. Until then
// the previous rules stay.
func (r *Reconciler) awaits(sets []unit.Key) (some bool) {
	for _, set := range sets {
		if !r.Database.Wanted(set) {
			r.Triggers.EnqueueUnit(set)
			some = true
		}
	}
	return some
}

// report writes the firewall's conditions, and records an event for what is wrong. It writes nothing while the database is away: the
// ClusterNetwork reports that, and the engine enqueues the firewall again.
func (r *Reconciler) report(ctx context.Context, firewall *networkv1alpha1.EgressFirewall, invalid, applied error) error {
	if ovndb.IsPending(applied) {
		return nil
	}
	updated := firewall.DeepCopy()
	conditions := conditionsOf{updated}
	conditions.ready(invalid, applied)
	conditions.resolved(r.Names, invalid == nil)
	if !conditions.differ(firewall) {
		return nil
	}
	for _, c := range conditions.worse(firewall) {
		r.Events.Eventf(firewall, nil, corev1.EventTypeWarning, c.Reason, "Filter", "%s", c.Message)
	}
	return client.IgnoreNotFound(kind.WriteStatus(ctx, r.Client, firewall, updated))
}
