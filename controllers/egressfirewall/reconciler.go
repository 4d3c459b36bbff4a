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
	"github.com/weft-network/weft/pkg/acllogging"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is what the reconcilers need of the engine.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
	// Wanted reports whether a unit with something in it was applied.
	Wanted(key unit.Key) bool
}

// Names knows what name servers answered.
type Names interface {
	Known(name string) (addresses []netip.Addr, asked bool, err error)
}

// Reconciler reconciles EgressFirewalls.
type Reconciler struct {
	Client   client.Client
	Database Database
	Names    Names
	Events   events.EventRecorder
	Trigger  *trigger.Trigger
	// Sets asks for the sets of a kind of unit, by the name of their unit.
	Sets map[string]*trigger.Trigger
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.Name != networkv1alpha1.EgressFirewallName {
		return ctrl.Result{}, nil // the API server refuses others
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
	facts, invalid := topology.ParseEgressFirewall(&firewall, clusters)
	if r.awaits(facts.Sets()) {
		return ctrl.Result{}, nil
	}
	if facts.Logging, err = acllogging.Of(ctx, r.Client, r.Events, &firewall); err != nil {
		return ctrl.Result{}, err
	}
	applied := r.Database.Apply(ctx, topology.EgressFirewallUnit(facts))
	return ctrl.Result{}, errors.Join(ovndb.IgnorePending(applied), r.tell(ctx, &firewall, invalid, applied))
}

// clusters are the networks of pods; none while there is no ClusterNetwork that can be read: its coming asks again.
func (r *Reconciler) clusters(ctx context.Context) ([]netip.Prefix, error) {
	var cn networkv1alpha1.ClusterNetwork
	if err := r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	plan, err := topology.ParseClusterNetwork(&cn)
	if err != nil {
		return nil, nil // its own condition says why
	}
	return plan.PodNetworks(), nil
}

// awaits reports whether a set that the rules name was never asked for: rules come after their sets, since OVN ignores a rule with a set that
// is not there. The set's reconciler asks for the firewall then; until that, the rules of before hold.
func (r *Reconciler) awaits(sets []unit.Key) (some bool) {
	for _, set := range sets {
		if !r.Database.Wanted(set) {
			r.Sets[set.Kind()].Enqueue(trigger.NameOf(set))
			some = true
		}
	}
	return some
}

// tell says what became of a firewall in its conditions, and what is wrong in an event too. Nothing is said while the database is away: the
// ClusterNetwork says that, and the engine asks again.
func (r *Reconciler) tell(ctx context.Context, firewall *networkv1alpha1.EgressFirewall, invalid, applied error) error {
	if ovndb.IsPending(applied) {
		return nil
	}
	told := firewall.DeepCopy()
	conditions := conditionsOf{told}
	conditions.ready(invalid, applied)
	conditions.resolved(r.Names, invalid == nil)
	if !conditions.differ(firewall) {
		return nil
	}
	for _, c := range conditions.worse(firewall) {
		r.Events.Eventf(firewall, nil, corev1.EventTypeWarning, c.Reason, "Filter", "%s", c.Message)
	}
	patch := client.MergeFromWithOptions(firewall, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, told, patch))
}
