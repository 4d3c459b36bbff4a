package clusternetwork

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// Name is the request of this controller, because there is one ClusterNetwork.
var Name = types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}

// Kinds returns the kind of the cluster-wide unit.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Database: env.Database, Addresses: env.Addresses, Events: env.Events, Observed: env.Observed,
		Floating: env.Floating, Settings: env.Settings, Zone: env.Zone,
		Policies: func(ctx context.Context) ([]metav1.Object, error) { return env.ClusterPolicies(ctx) }}
	env.PoliciesReported.Subscribe(func(struct{}) { env.Triggers.EnqueueAfter(topology.KindNetwork, Name, env.Settings.CountDelay) })
	env.FloatingFreed.Subscribe(func(string) { // the routes of floating addresses may not be needed any more
		env.Triggers.EnqueueAfter(topology.KindNetwork, Name, env.Settings.CountDelay)
	})
	k := &kind.Kind{Name: topology.KindNetwork, Object: "clusternetwork", Reconciler: r, Watches: r.watches(), Indexes: []kind.Index{
		{Object: &corev1.Pod{}, Field: byProblem, Values: indexProblem},
		{Object: &corev1.Service{}, Field: byProblem, Values: indexProblem},
	}}
	if servesServiceCIDRs(env.Client.RESTMapper()) {
		k.Watches = append(k.Watches, kind.Map(&networkingv1.ServiceCIDR{}, theNetwork))
	}
	if r.Settings.Namespace != "" {
		k.Indexes = append(k.Indexes, kind.Index{Object: &corev1.Pod{}, Field: byAgent, Values: r.indexAgent})
		k.Watches = append(k.Watches, kind.Map(&corev1.Pod{}, theNetwork, r.agentsOnly()))
	}
	return []*kind.Kind{k}
}

func (r *Reconciler) watches() []kind.Watch {
	soon, counts := after(nodeDelay), after(r.Settings.CountDelay)
	all := []kind.Watch{
		kind.Of(&networkv1alpha1.ClusterNetwork{}, trigger.Changed(specOrStatusChanged)),
		// Foreign changes of the status are reverted. Our own writes arrive here too, because counts may have changed
		// meanwhile.
		kind.On(&networkv1alpha1.ClusterNetwork{}, counts, predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false }}),
		kind.On(&networkv1alpha1.NodeNetwork{}, soon, trigger.Changed(healthChanged)),
		kind.On(&corev1.Node{}, soon, trigger.Changed(lossChanged)),
		kind.On(&corev1.Pod{}, counts, problemsChanged()),
		kind.On(&corev1.Service{}, counts, problemsChanged()),
		kind.On(&discoveryv1.EndpointSlice{}, soon, apiServersOnly()),
		kind.Map(&networkv1alpha1.IPPool{}, theNetwork, balance.RangesChanged()),
		kind.Map(&networkv1alpha1.ExternalRoute{}, theNetwork, predicate.Funcs{
			UpdateFunc: func(event.UpdateEvent) bool { return false }}),
	}
	for _, k := range health.Kinds() {
		if object, ok := k.Object.(client.Object); ok {
			all = append(all, kind.On(object, soon, problemsChanged()))
		}
	}
	return all
}

func theNetwork(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: Name}}
}
