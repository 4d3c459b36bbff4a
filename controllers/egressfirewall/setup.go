package egressfirewall

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/acllogging"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
)

const (
	// workers is how many firewalls or sets are reconciled at once: each waits for its transaction, and those that wait share the next.
	workers = 4
	// questions is how many names are asked for at once.
	questions = 16
)

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &networkv1alpha1.EgressFirewall{}, BySet, IndexBySet); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("egressfirewall").
		For(&networkv1alpha1.EgressFirewall{}, builder.WithPredicates(predicate.Or[client.Object](predicate.Funcs{UpdateFunc: changed}, acllogging.Changed()))).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(firewallOf), builder.WithPredicates(acllogging.NamespaceChanged())).
		Watches(&networkv1alpha1.ClusterNetwork{}, handler.EnqueueRequestsFromMapFunc(r.All), builder.WithPredicates(trigger.SpecChanged())).
		WatchesRawSource(r.Trigger).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: trigger.Retries()}).
		Complete(r)
}

// firewallOf asks for the firewall of a namespace.
func firewallOf(_ context.Context, namespace client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace.GetName(), Name: networkv1alpha1.EgressFirewallName}}}
}

// All asks for all firewalls.
func (r *Reconciler) All(ctx context.Context, _ client.Object) (all []reconcile.Request) {
	var list networkv1alpha1.EgressFirewallList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache answers; it has no errors to give once it is in sync
	}
	for i := range list.Items {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return all
}

// SetupWithManager registers the controller, after that of the firewalls.
func (r *Nodes) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("egressfirewall-nodes").
		Watches(&networkv1alpha1.EgressFirewall{}, handler.EnqueueRequestsFromMapFunc(requests(topology.KindNodes)), builder.WithPredicates(trigger.SpecChanged())).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.InUse), builder.WithPredicates(predicate.Funcs{UpdateFunc: nodeChanged})).
		WatchesRawSource(r.Trigger).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: trigger.Retries()}).
		Complete(r)
}

// changed lets changes of the spec and the status pass, our own too: conditions that were compared with those from before the last write, and left
// out as nothing new, are told when that write comes.
func changed(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.EgressFirewall)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.EgressFirewall)
	return !ok || !ok2 || before.Generation != after.Generation || before.UID != after.UID || !equality.Semantic.DeepEqual(before.Status, after.Status)
}

// nodeChanged lets changes of the node's labels and addresses pass.
func nodeChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	return !ok || !ok2 || !maps.Equal(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}

// SetupWithManager registers the controller, after that of the firewalls.
func (r *DNS) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("egressfirewall-dns").
		Watches(&networkv1alpha1.EgressFirewall{}, handler.EnqueueRequestsFromMapFunc(requests(topology.KindDNS)), builder.WithPredicates(trigger.SpecChanged())).
		WatchesRawSource(r.Trigger).
		WithOptions(controller.Options{MaxConcurrentReconciles: questions, RateLimiter: trigger.Retries()}).
		Complete(r)
}
