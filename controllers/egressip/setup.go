package egressip

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// Kinds returns the kinds of EgressIPs' units and of Services that are the source of their pods. EgressIPs are reconciled one after the
// other, because each choice depends on the others.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Database: env.Database, Events: env.Events, Triggers: env.Triggers,
		Reachable:         env.Observed.Reachable,
		ServicesByAddress: balance.ByAddress, Zone: env.Zone, Floating: env.Floating, Planning: env.IsPlan()}
	env.FloatingFreed.Subscribe(func(string) {
		for _, request := range r.matching(context.Background(), waits) {
			env.Triggers.Enqueue(topology.KindEgressIP, request.NamespacedName)
		}
	})
	services := &Services{Client: env.Client, Database: env.Database, Events: env.Events, Zone: env.Zone}
	lost := func(request reconcile.Request) {
		env.Triggers.EnqueueAfter(topology.KindEgressIP, request.NamespacedName, env.Settings.CountDelay)
	}
	return []*kind.Kind{services.kind(), {
		Name: topology.KindEgressIP, Reconciler: r,
		Owner: func() client.Object { return &networkv1alpha1.EgressIP{} },
		First: func() client.ObjectList { return &networkv1alpha1.EgressIPList{} }, // addresses in sets of nodes in Local mode
		Watches: append([]kind.Watch{
			kind.Of(&networkv1alpha1.EgressIP{}, trigger.Changed(changed)),
			// Another EgressIP may take an address that becomes free. A new EgressIP takes an address from another
			// one of the same second if its name sorts first.
			kind.Map(&networkv1alpha1.EgressIP{}, r.Sharing, kind.EgressAddressesChanged()),
			kind.Map(&corev1.Node{}, r.every, trigger.Changed(nodeChanged)),
			kind.Map(&networkv1alpha1.NodeNetwork{}, r.every, trigger.Changed(networkChanged)),
			kind.Map(&networkv1alpha1.ClusterNetwork{}, r.every, kind.NetworksChanged()),
			kind.Map(&networkv1alpha1.LoadBalancerPool{}, r.every, kind.BalancersChanged()),
			kind.Map(&corev1.Service{}, r.On, trigger.Changed(addressesChanged)),
			kind.Map(&networkv1alpha1.IPPool{}, r.every, predicate.Or(balance.RangesChanged(), balance.InForceChanged())),
			kind.Map(&networkv1alpha1.FloatingIP{}, r.waiting, released()),
			kind.Map(&discoveryv1.EndpointSlice{}, r.every, predicate.NewPredicateFuncs(isOfAPIServer)),
		}, append(kind.ProbeWatches(r.probing), kind.SelectionWatches(env.Client, r.selectors, lost)...)...),
	}}
}

// isOfAPIServer reports whether a slice has endpoints of the API server.
func isOfAPIServer(o client.Object) bool {
	return o.GetNamespace() == metav1.NamespaceDefault && o.GetLabels()[discoveryv1.LabelServiceName] == apiServerService
}

// changed passes changes of the spec and the status, including our own writes. A decision that equals an outdated
// status is not written, so it is made again when our last write arrives.
func changed(before, after *networkv1alpha1.EgressIP) bool {
	return before.Generation != after.Generation || !equality.Semantic.DeepEqual(before.Status, after.Status)
}

// nodeChanged passes changes of the node's addresses and of whether it may carry egress IPs.
func nodeChanged(before, after *corev1.Node) bool {
	return facts.Assignable(before) != facts.Assignable(after) ||
		!equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}

// probing returns a request for each EgressIP with an address that nodes probe.
func (r *Reconciler) probing(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.matching(ctx, func(e *networkv1alpha1.EgressIP) bool { return len(e.Status.Probing) > 0 })
}

// networkChanged passes changes of the node's gateway router.
func networkChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return kind.NodeSpecChanged(before, after) || before.Status.Chassis != after.Status.Chassis ||
		!equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway)
}

// addressesChanged passes changes of the addresses that a service is balanced on.
func addressesChanged(before, after *corev1.Service) bool {
	return !slices.Equal(facts.ServiceAddresses(before), facts.ServiceAddresses(after))
}

func (r *Reconciler) list(ctx context.Context) []networkv1alpha1.EgressIP {
	var list networkv1alpha1.EgressIPList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	return list.Items
}

// selectsOf returns the selection of pods by an EgressIP.
func selectsOf(e *networkv1alpha1.EgressIP) kind.Selects {
	return func(namespace, pod labels.Set) (bool, error) { return facts.Selects(e, namespace, pod) }
}

// selectors lists the selectors of all EgressIPs.
func (r *Reconciler) selectors(ctx context.Context, _ client.Object) (all []kind.Selector) {
	list := r.list(ctx)
	for i := range list {
		e := &list[i]
		all = append(all, kind.Selector{Request: reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e)}, Selects: selectsOf(e),
			None: kind.SaysNone(meta.FindStatusCondition(e.Status.Conditions, networkv1alpha1.ConditionAssigned))})
	}
	return all
}

func (r *Reconciler) every(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.Every(ctx)
}

// Every returns a request for each EgressIP.
func (r *Reconciler) Every(ctx context.Context) []reconcile.Request {
	return r.matching(ctx, func(*networkv1alpha1.EgressIP) bool { return true })
}

// Sharing returns a request for each other EgressIP that has an address of this one.
func (r *Reconciler) Sharing(ctx context.Context, o client.Object) []reconcile.Request {
	e, ok := o.(*networkv1alpha1.EgressIP)
	if !ok {
		return nil
	}
	addresses := facts.EgressAddressesInUse(e)
	return r.matching(ctx, func(other *networkv1alpha1.EgressIP) bool {
		return other.Name != e.Name && slices.ContainsFunc(facts.EgressAddressesInUse(other), func(a netip.Addr) bool {
			return slices.Contains(addresses, a)
		})
	})
}

// On returns a request for each EgressIP with an address that a service is balanced on, or with an address that no node carries.
func (r *Reconciler) On(ctx context.Context, o client.Object) []reconcile.Request {
	service, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	addresses := facts.ServiceAddresses(service)
	return r.matching(ctx, func(e *networkv1alpha1.EgressIP) bool {
		return waits(e) || slices.ContainsFunc(facts.EgressAddressesInUse(e), func(a netip.Addr) bool { return slices.Contains(addresses, a) })
	})
}

// waits reports whether an EgressIP has an address that no node carries.
func waits(e *networkv1alpha1.EgressIP) bool {
	return len(e.Status.Former) > 0 || len(e.Spec.EgressIPs) != len(e.Status.Items)
}

// waiting returns a request for each EgressIP with an address that no node carries.
func (r *Reconciler) waiting(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.matching(ctx, waits)
}

// released passes the events of FloatingIPs whose address becomes free.
func released() predicate.Funcs {
	freed := trigger.Changed(func(before, after *networkv1alpha1.FloatingIP) bool {
		return before.Spec.Holder != nil && after.Spec.Holder == nil
	})
	freed.CreateFunc = func(event.CreateEvent) bool { return false }
	return freed
}

func (r *Reconciler) matching(ctx context.Context, which func(*networkv1alpha1.EgressIP) bool) []reconcile.Request {
	return kind.RequestsIf(ctx, r.Client, &networkv1alpha1.EgressIPList{}, which)
}
