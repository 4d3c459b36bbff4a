// Package sweep finds rows whose owner is gone: what was deleted while nobody watched. It only asks for the owner's
// reconciliation, which finds the object absent and takes its rows away as in any other deletion.
package sweep

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is what the sweep needs of the engine.
type Database interface {
	// Owners counts the rows of each unit; ok is false while the database is not connected.
	Owners() (owners map[unit.Key]int, ok bool)
	// Wanted reports whether a unit was applied in this process.
	Wanted(key unit.Key) bool
}

// Reconciler sweeps once after the start and once the addresses in use are known, after every reconnect, and when a ClusterNetwork comes.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, past the cache.
	Live     client.Reader
	Database Database
	Events   events.EventRecorder
	Trigger  *trigger.Trigger
	// Awaited lists nodes whose pods have addresses there, and whose subnets are not known: one that does not exist comes no more, and
	// may have left no row to find it by.
	Awaited func() []string
	// Kinds gives the controller of each kind that this binary knows; rows of other kinds are kept.
	Kinds map[string]*trigger.Trigger
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("sweep").
		// What was found while there was no ClusterNetwork stayed.
		Watches(&networkv1alpha1.ClusterNetwork{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(event.UpdateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		WatchesRawSource(r.Trigger).Complete(r)
}

// Reconcile implements reconcile.Reconciler. All caches are in sync when it is called.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	owners, ok := r.Database.Owners()
	if !ok {
		return ctrl.Result{}, nil // the reconnect asks again
	}
	var cn networkv1alpha1.ClusterNetwork
	name := types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}
	if err := r.Client.Get(ctx, name, &cn); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // without a ClusterNetwork everything stays
	}
	vanished, err := r.vanished(ctx, owners)
	if err != nil {
		return ctrl.Result{}, err
	}
	for kind, keys := range vanished {
		if reason := keep(kind, len(keys), count(owners, kind), r.Kinds[kind] != nil); reason != "" {
			r.Events.Eventf(&cn, nil, corev1.EventTypeWarning, "RowsKept", "Sweep", "rows of %d %s units whose owner is gone are kept: %s", len(keys), kind, reason)
			continue
		}
		for _, key := range keys {
			r.Kinds[kind].Enqueue(trigger.NameOf(key))
		}
	}
	return ctrl.Result{}, r.dismiss(ctx)
}

// dismiss lets the controller of nodes take leave of those that are awaited in vain.
func (r *Reconciler) dismiss(ctx context.Context) error {
	for _, node := range r.Awaited() {
		name := types.NamespacedName{Name: node}
		gone, err := r.gone(ctx, &corev1.Node{}, name)
		if err != nil {
			return err
		}
		if gone {
			r.Kinds[topology.KindNode].Enqueue(name)
		}
	}
	return nil
}

// keep says why the rows of vanished owners must stay; empty if they can go.
func keep(kind string, vanished, total int, known bool) string {
	switch {
	case !known:
		return "this version of Weft does not know the kind"
	// A pod that the API server does not know is killed by its kubelet anyway, so that its port can go without a question.
	case kind != topology.KindPod && vanished > max(20, total/10):
		return fmt.Sprintf("%d of %d are too many to be right", vanished, total)
	}
	return ""
}

// vanished lists by kind the owners that neither the cache nor the API server knows, and asks for those that are there.
func (r *Reconciler) vanished(ctx context.Context, owners map[unit.Key]int) (map[string][]unit.Key, error) {
	found := map[string][]unit.Key{}
	for key := range owners {
		if r.Database.Wanted(key) {
			continue
		}
		if known := r.Kinds[key.Kind()]; known != nil && decides[key.Kind()] {
			known.Enqueue(trigger.NameOf(key))
			continue
		}
		object := objectOf(key)
		if object == nil {
			if key.Kind() != topology.KindNetwork {
				found[key.Kind()] = append(found[key.Kind()], key)
			}
			continue
		}
		gone, err := r.gone(ctx, object, trigger.NameOf(key))
		if err != nil {
			return nil, err
		}
		if gone {
			found[key.Kind()] = append(found[key.Kind()], key)
		} else {
			// The object is there and may want no row all the same, such as a pod that has ended: its own controller knows. At a start
			// these are all that there are, and those without a row come first.
			r.Kinds[key.Kind()].EnqueueLast(trigger.NameOf(key))
		}
	}
	return found, nil
}

// gone asks the cache first: only what it lacks costs a call. The API server may lack network-policy-api's kinds, and their cache would be waited for.
func (r *Reconciler) gone(ctx context.Context, object client.Object, name types.NamespacedName) (bool, error) {
	readers := []client.Reader{r.Client, r.Live}
	switch object.(type) {
	case *policyv1alpha2.ClusterNetworkPolicy, *policyv1alpha1.AdminNetworkPolicy, *policyv1alpha1.BaselineAdminNetworkPolicy:
		readers = []client.Reader{r.Live}
	}
	for _, reader := range readers {
		err := reader.Get(ctx, name, object)
		if err == nil {
			return false, nil
		}
		if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) { // without the CRD there is none either
			return false, fmt.Errorf("look for the owner %s: %w", name, err)
		}
	}
	return true, nil
}

// decides are the kinds of sets that are shared: no object is their owner, and their own controller knows whether somebody uses them.
var decides = map[string]bool{topology.KindNodes: true, topology.KindDNS: true, topology.KindPodGroup: true, topology.KindPodSet: true}

func objectOf(key unit.Key) client.Object {
	switch key.Kind() {
	case topology.KindPod:
		return &corev1.Pod{}
	case topology.KindNode, topology.KindGateway:
		return &corev1.Node{}
	case topology.KindService:
		return &corev1.Service{}
	case topology.KindEgressFirewall:
		return &networkv1alpha1.EgressFirewall{}
	case topology.KindNetworkPolicy:
		return &networkingv1.NetworkPolicy{}
	case topology.KindClusterNetworkPolicy:
		return &policyv1alpha2.ClusterNetworkPolicy{}
	case topology.KindAdminNetworkPolicy:
		return &policyv1alpha1.AdminNetworkPolicy{}
	case topology.KindBaselineAdminNetworkPolicy:
		return &policyv1alpha1.BaselineAdminNetworkPolicy{}
	case topology.KindEgressIP:
		return &networkv1alpha1.EgressIP{}
	}
	return nil
}

func count(owners map[unit.Key]int, kind string) int {
	n := 0
	for key := range owners {
		if key.Kind() == kind {
			n++
		}
	}
	return n
}
