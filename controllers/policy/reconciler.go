package policy

import (
	"context"
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/acllog/annotation"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/selection"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the part of the engine that the reconcilers use.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
	// ApplyAll applies units in one transaction. Pending units are no error.
	ApplyAll(ctx context.Context, units ...unit.Unit) error
	// Retry applies a unit again as it is.
	Retry(ctx context.Context, key unit.Key) error
	// Wanted reports whether a non-empty unit was applied.
	Wanted(key unit.Key) bool
}

// Answers has the answers of name servers.
type Answers interface {
	Known(name string) (addresses []netip.Addr, queried bool, err error)
}

// Reconciler reconciles NetworkPolicies.
type Reconciler struct {
	Client    client.Client
	Database  Database
	Selectors *selection.Selectors
	Events    events.EventRecorder
	Triggers  *trigger.Set
	Zone      kind.Zone
	// Names records which policies name the sets of DNS names, and Answers has the names' addresses.
	Names   *kind.SetUsers
	Answers Answers
	// Reported publishes that the conditions of a policy of network-policy-api changed, or that such a policy was deleted.
	Reported *kind.Topic[struct{}]
	// Clusters reconcile the cluster-wide policies, Multi the MultiNetworkPolicies, QoS the EgressQoSes, and Multicast the
	// namespaces that request it.
	Clusters  []*Cluster
	Multi     *Multi
	QoS       *QoS
	Multicast *Multicast
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Selectors.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	key := topology.NetworkPolicyKey(req.Namespace, req.Name)
	var policy networkingv1.NetworkPolicy
	if err := r.Client.Get(ctx, req.NamespacedName, &policy); apierrors.IsNotFound(err) {
		r.Selectors.Read(key, nil)
		return ctrl.Result{}, r.settle(ctx, unit.Unit{Key: key}, nil)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	read, invalid, err := r.use(ctx, &policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	selectors := topology.NetworkPolicySelectors(read)
	if invalid != nil {
		r.Events.Eventf(&policy, nil, corev1.EventTypeWarning, networkv1alpha1.ReasonInvalidSpec, "Isolate",
			"what cannot be read allows nothing: %v", invalid)
	}
	if _, ready := r.Selectors.Unmade(selectors); !ready {
		// the groups and sets that wait for a pod enqueue this policy when they are created; until then the previous rules stay
		return ctrl.Result{}, nil
	}
	if read.Logging, err = annotation.Of(ctx, r.Client, r.Events, &policy); err != nil {
		return ctrl.Result{}, err
	}
	err = r.settle(ctx, topology.NetworkPolicyUnit(read), selectors)
	var refused *ovndb.RejectedError
	if errors.As(err, &refused) {
		r.Events.Eventf(&policy, nil, corev1.EventTypeWarning, networkv1alpha1.ReasonDatabaseRefused, "Isolate", "%v", refused)
	}
	return ctrl.Result{}, err
}

// settle applies the groups and sets that the policy needs together with the policy's unit, in one transaction, and
// drops the selectors that it no longer uses.
func (r *Reconciler) settle(ctx context.Context, u unit.Unit, selectors map[unit.Key]facts.PodSelector) error {
	unmade, _ := r.Selectors.Unmade(selectors)
	units := make([]unit.Unit, 0, len(unmade)+1)
	for _, key := range unmade { // first, because the policy's unit depends on their rows
		units = append(units, topology.SelectorUnit(key))
	}
	err := r.Database.ApplyAll(ctx, append(units, u)...)
	var refused *ovndb.RejectedError
	if err == nil || errors.As(err, &refused) && refused.Unit == u.Key { // the first refusal is the policy's, which comes last
		r.Selectors.Complete(unmade, u.Key)
	}
	if err == nil {
		r.Selectors.Drop(u.Key, selectors)
	}
	return err
}

func (r *Reconciler) use(ctx context.Context, policy *networkingv1.NetworkPolicy) (read facts.NetworkPolicy, invalid, err error) {
	return readPolicy(ctx, r, topology.NetworkPolicyKey(policy.Namespace, policy.Name), topology.NetworkPolicySelectors,
		func(numbers facts.Numbers, _ facts.NodesOf) (facts.NetworkPolicy, error) {
			return facts.ParseNetworkPolicy(policy, numbers)
		})
}

// load reads all policies, for Selectors.Load.
func (r *Reconciler) load(ctx context.Context) error {
	var policies networkingv1.NetworkPolicyList
	if err := r.Client.List(ctx, &policies); err != nil {
		return err
	}
	for i := range policies.Items {
		if _, _, err := r.use(ctx, &policies.Items[i]); err != nil {
			return err
		}
	}
	for _, cluster := range r.Clusters {
		if err := cluster.load(ctx); err != nil {
			return err
		}
	}
	return errors.Join(r.QoS.load(ctx), r.Multi.load(ctx), r.Multicast.load(ctx))
}
