package policy

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weft-network/weft/controllers/acllogging"
	"github.com/weft-network/weft/pkg/trigger"
)

// ClusterKnown asks the API server whether it has the CRD of ClusterNetworkPolicies. One that is installed later is seen by the next process that
// leads.
func ClusterKnown(mgr ctrl.Manager) (bool, error) {
	kind := schema.GroupVersion(policyv1alpha2.GroupVersion).WithKind("ClusterNetworkPolicy")
	_, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// SetupWithManager registers the controller. Without the CRD it is there too, and watches nothing: it takes away what is left of policies.
func (r *Cluster) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("clusternetworkpolicy").WatchesRawSource(r.Trigger).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: trigger.Retries()})
	if r.Known {
		b = b.For(&policyv1alpha2.ClusterNetworkPolicy{}, builder.WithPredicates(predicate.Or[client.Object](predicate.Funcs{UpdateFunc: clusterPolicyChanged}, acllogging.Changed()))).
			Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.namingNodes), builder.WithPredicates(predicate.Funcs{UpdateFunc: nodeChanged}))
	}
	return b.Complete(r)
}

// clusterPolicyChanged lets changes of the spec and the status pass, our own too: a condition that was compared with one from before the last write is
// told when that write comes.
func clusterPolicyChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*policyv1alpha2.ClusterNetworkPolicy)
	after, ok2 := e.ObjectNew.(*policyv1alpha2.ClusterNetworkPolicy)
	return !ok || !ok2 || before.Generation != after.Generation || before.UID != after.UID || !equality.Semantic.DeepEqual(before.Status, after.Status)
}

// nodeChanged lets changes of the node's labels and addresses pass.
func nodeChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	return !ok || !ok2 || !maps.Equal(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}

// namingNodes asks for the policies that are about nodes.
func (r *Cluster) namingNodes(ctx context.Context, _ client.Object) (all []reconcile.Request) {
	var policies policyv1alpha2.ClusterNetworkPolicyList
	if err := r.Client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache answers; it has no errors to give once it is in sync
	}
	for i := range policies.Items {
		if namesNodes(&policies.Items[i]) {
			all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: policies.Items[i].Name}})
		}
	}
	return all
}

func namesNodes(policy *policyv1alpha2.ClusterNetworkPolicy) bool {
	for _, rule := range policy.Spec.Egress {
		for _, to := range rule.To {
			if to.Nodes != nil {
				return true
			}
		}
	}
	return false
}
