package loadbalancerpool

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// KindAddresses is the kind of Services that get addresses. It has no units.
const KindAddresses = "loadbalancer"

// Kinds returns the kinds of Services' addresses, and of LoadBalancerPools.
func Kinds(env *kind.Env) []*kind.Kind {
	addresses := &Allocator{Client: env.Client, Events: env.Events, Floating: env.Floating, Triggers: env.Triggers,
		OnNetworks:      env.NetworkAddresses,
		RestoreNetworks: func(ctx context.Context) error { return env.RestoreNetworks(ctx) }, // package podports may set it later
		Planning:        env.IsPlan()}
	env.ServiceProbes = addresses.probes
	if origin, ok := kind.Origin[*Allocator](env, KindAddresses); ok {
		addresses.written = maps.Clone(origin.written)
	}
	pools := &Pools{Client: env.Client, Database: env.Database, Events: env.Events, Triggers: env.Triggers,
		Reachable: env.Observed.AgentReachable, Zone: env.Zone, Announcing: env.Settings.Announcing,
		Floating: env.Floating}
	env.FloatingFreed.Subscribe(func(string) {
		pools.freed(context.Background())
		env.Triggers.EnqueueAfter(KindAddresses, All, env.Settings.CountDelay) // once for many addresses
	})
	env.Detached.Subscribe(func(struct{}) { env.Triggers.EnqueueAfter(KindAddresses, All, env.Settings.CountDelay) })
	return []*kind.Kind{{
		Name: KindAddresses, DefaultZoneOnly: true, Reconciler: addresses,
		Owner: func() client.Object { return &corev1.Service{} },
		Watches: append([]kind.Watch{
			kind.Map(&corev1.Service{}, addresses.changed, trigger.Changed(requestChanged)),
			kind.Of(&corev1.Service{}, predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false },
				UpdateFunc: func(event.UpdateEvent) bool { return false }}), // the end of each
			kind.Map(&corev1.Service{}, addresses.freed, predicate.Funcs{
				CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: trigger.Update(freesAddresses), DeleteFunc: hadAddresses}),
			kind.Map(&networkv1alpha1.LoadBalancerPool{}, addresses.served, trigger.Changed(poolChanged)),
			kind.Map(&corev1.Namespace{}, addresses.in, predicate.Funcs{UpdateFunc: trigger.Update(trigger.LabelsChanged),
				DeleteFunc: func(event.DeleteEvent) bool { return false }}).MetadataOnly(),
		}, kind.ProbeWatches(addresses.waiting)...),
	}, {
		Name: topology.KindLoadBalancerPool, Reconciler: pools,
		Owner: func() client.Object { return &networkv1alpha1.LoadBalancerPool{} },
		First: func() client.ObjectList { return &networkv1alpha1.LoadBalancerPoolList{} }, // addresses in sets of nodes in Local mode
		Watches: []kind.Watch{
			kind.Of(&networkv1alpha1.LoadBalancerPool{}),
			kind.Map(&networkv1alpha1.LoadBalancerPool{}, pools.every, trigger.SpecChanged()),
			kind.Map(&corev1.Service{}, pools.having, trigger.Changed(announcedChanged)),
			kind.Map(&corev1.Namespace{}, pools.every, predicate.Funcs{UpdateFunc: trigger.Update(trigger.LabelsChanged),
				CreateFunc: func(event.CreateEvent) bool { return false },
				DeleteFunc: func(event.DeleteEvent) bool { return false }}).MetadataOnly(),
			kind.Map(&discoveryv1.EndpointSlice{}, pools.near),
			kind.Map(&networkv1alpha1.IPPool{}, pools.every, balance.RangesChanged()),
			kind.Map(&networkv1alpha1.EgressIP{}, pools.every, kind.EgressAddressesChanged()),
			kind.Map(&networkv1alpha1.BGPAdvertisement{}, pools.every, trigger.SpecChanged()),
			kind.Map(&networkv1alpha1.ClusterNetwork{}, pools.every, kind.NetworksChanged()),
			kind.Map(&networkv1alpha1.NodeNetwork{}, pools.every, trigger.Changed(networkChanged)),
			kind.Map(&corev1.Node{}, pools.every, trigger.Changed(nodeChanged)),
		},
	}}
}

// requestChanged passes updates of a Service that change its request or its addresses.
func requestChanged(before, after *corev1.Service) bool {
	return !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
		!maps.Equal(before.Annotations, after.Annotations) || !maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Status, after.Status) || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
}

// freesAddresses passes updates of a Service after which other Services may get its address: the Service lost it, or shares it now.
func freesAddresses(before, after *corev1.Service) bool {
	return !slices.Equal(facts.ServiceAddresses(before), facts.ServiceAddresses(after)) ||
		len(lbpool.AddressesOf(before)) > 0 &&
			!equality.Semantic.DeepEqual(lbpool.SharingOf(before), lbpool.SharingOf(after))
}

// hadAddresses passes the deletion of a Service whose addresses others may wait for: it had addresses besides its cluster
// IPs, or may have had some that the cache did not receive.
func hadAddresses(e event.DeleteEvent) bool {
	s, ok := e.Object.(*corev1.Service)
	return !ok || e.DeleteStateUnknown || lbpool.Wants(s) || lbpool.IsOurs(s) || len(facts.ExternalAddresses(s)) > 0
}

// announcedChanged passes updates of a Service that change which nodes may answer for its addresses.
func announcedChanged(before, after *corev1.Service) bool {
	return lbpool.IsOurs(before) != lbpool.IsOurs(after) ||
		lbpool.Wants(before) != lbpool.Wants(after) ||
		before.Spec.ExternalTrafficPolicy != after.Spec.ExternalTrafficPolicy || !maps.Equal(before.Labels, after.Labels) ||
		!slices.Equal(lbpool.AddressesOf(before), lbpool.AddressesOf(after))
}

// poolChanged passes updates of a pool's spec, of whether it gives addresses, and of whether its loss is confirmed.
func poolChanged(before, after *networkv1alpha1.LoadBalancerPool) bool {
	return before.Generation != after.Generation || judgementOf(before) != judgementOf(after) ||
		networkv1alpha1.LossConfirmed(before) != networkv1alpha1.LossConfirmed(after)
}

// judgement says whether a pool gives addresses.
type judgement struct {
	generation int64
	status     metav1.ConditionStatus
	refused    string
}

func judgementOf(pool *networkv1alpha1.LoadBalancerPool) (j judgement) {
	if ready := meta.FindStatusCondition(pool.Status.Conditions, networkv1alpha1.ConditionReady); ready != nil {
		j.generation, j.status = ready.ObservedGeneration, ready.Status
		if ready.Status != metav1.ConditionTrue {
			j.refused = ready.Message
		}
	}
	return j
}

// nodeChanged passes updates of a node's addresses, and of whether it may answer for addresses.
func nodeChanged(before, after *corev1.Node) bool {
	return lbpool.IsReady(before) != lbpool.IsReady(after) ||
		before.Spec.Unschedulable != after.Spec.Unschedulable ||
		lbpool.MayAnnounce(before) != lbpool.MayAnnounce(after) || !maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}

// networkChanged passes updates of a node's gateway router.
func networkChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return kind.NodeSpecChanged(before, after) || before.Status.Chassis != after.Status.Chassis ||
		!equality.Semantic.DeepEqual(before.Status.Probed, after.Status.Probed) ||
		!equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway)
}

// changed returns the request for a Service, and for all that wait if it waits, so that many of one namespace are no queue for the others.
func (r *Allocator) changed(ctx context.Context, o client.Object) []reconcile.Request {
	if s, ok := o.(*corev1.Service); ok && lbpool.Wants(s) && lacks(s) {
		return r.waiting(ctx, o)
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
}

// waiting returns the request for all Services that wait.
func (r *Allocator) waiting(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: All}}
}

// freed returns the request for all Services that wait, and one for each Service that shares an address with the changed one.
func (r *Allocator) freed(ctx context.Context, changed client.Object) []reconcile.Request {
	c, ok := changed.(*corev1.Service)
	return append(r.waiting(ctx, changed), r.services(ctx, func(s *corev1.Service) bool {
		have := lbpool.AddressesOf(s)
		return ok && slices.ContainsFunc(facts.ServiceAddresses(c), func(a netip.Addr) bool { return slices.Contains(have, a) })
	})...)
}

// lacks reports whether a Service lacks an address that it requests.
func lacks(s *corev1.Service) bool {
	return len(lbpool.AddressesOf(s)) < max(1, len(s.Spec.IPFamilies)) ||
		meta.IsStatusConditionFalse(s.Status.Conditions, networkv1alpha1.ServiceLoadBalancerReady)
}

// served returns a request for each Service that a pool may serve.
func (r *Allocator) served(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.services(ctx, func(*corev1.Service) bool { return true })
}

// in returns a request for each Service of a namespace that a pool may serve.
func (r *Allocator) in(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.services(ctx, func(*corev1.Service) bool { return true }, client.InNamespace(namespace.GetName()))
}

// services returns a request for each listed Service that which selects and that requests addresses or has addresses of a pool.
func (r *Allocator) services(ctx context.Context, which func(*corev1.Service) bool, of ...client.ListOption) []reconcile.Request {
	return kind.RequestsIf(ctx, r.Client, &corev1.ServiceList{}, func(s *corev1.Service) bool {
		return (lbpool.Wants(s) || lbpool.IsOurs(s)) && which(s)
	}, of...)
}

// every returns a request for each LoadBalancerPool.
func (r *Pools) every(ctx context.Context, _ client.Object) []reconcile.Request {
	return kind.Requests(ctx, r.Client, &networkv1alpha1.LoadBalancerPoolList{})
}

// freed enqueues the pools that are not ready, because an address of an IPPool may be free now.
func (r *Pools) freed(ctx context.Context) {
	for _, request := range kind.RequestsIf(ctx, r.Client, &networkv1alpha1.LoadBalancerPoolList{}, isUnready) {
		r.Triggers.Enqueue(topology.KindLoadBalancerPool, request.NamespacedName)
	}
}

func isUnready(pool *networkv1alpha1.LoadBalancerPool) bool {
	return !meta.IsStatusConditionTrue(pool.Status.Conditions, networkv1alpha1.ConditionReady)
}

// having returns requests for the pools if a Service has addresses of a load balancer.
func (r *Pools) having(ctx context.Context, o client.Object) []reconcile.Request {
	if s, ok := o.(*corev1.Service); ok && (lbpool.IsOurs(s) || len(lbpool.AddressesOf(s)) > 0) {
		return r.every(ctx, o)
	}
	return nil
}

// near returns requests for the pools if an EndpointSlice belongs to the API server, or to a Service that only nodes with
// endpoints answer for.
func (r *Pools) near(ctx context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[discoveryv1.LabelServiceName]
	if name == "" {
		return nil
	}
	if o.GetNamespace() == corev1.NamespaceDefault && name == apiServerService {
		return r.every(ctx, o)
	}
	var s corev1.Service
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: name}, &s); err != nil {
		return nil // its creation enqueues the pools
	}
	if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && lbpool.IsOurs(&s) {
		return r.every(ctx, o)
	}
	return nil
}
