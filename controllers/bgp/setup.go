package bgp

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// Kind is the name of the kind. It has no units: its result is a part of NodeNetworks.
const Kind = "bgp"

// Kinds returns the kind of BGP routes.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Events: env.Events, Counted: env.Settings.Sessions}
	return []*kind.Kind{{
		Name: Kind, Reconciler: r, SkipInPlan: true,
		Watches: []kind.Watch{
			kind.Map(&networkv1alpha1.BGPPeer{}, always, trigger.SpecChanged()),
			kind.Map(&networkv1alpha1.BGPAdvertisement{}, always, trigger.SpecChanged()),
			kind.Map(&networkv1alpha1.NodeNetwork{}, r.ofNetwork, trigger.Changed(networkChanged)),
			kind.Map(&corev1.Node{}, r.ifUsed, trigger.Changed(nodeChanged)),
			kind.Map(&corev1.Service{}, r.ofService, trigger.Changed(serviceChanged)),
			kind.Map(&discoveryv1.EndpointSlice{}, r.ofSlice),
			kind.Map(&networkv1alpha1.LoadBalancerPool{}, r.ifUsed,
				predicate.Or[client.Object](trigger.SpecChanged(), predicate.LabelChangedPredicate{})),
			kind.Map(&networkv1alpha1.EgressIP{}, r.ifUsed, trigger.Changed(egressIPChanged)),
			kind.Map(&corev1.Namespace{}, r.ifUsed, trigger.Changed(trigger.LabelsChanged)).MetadataOnly(),
		},
	}}
}

// always returns the request for all nodes.
func always(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}}}
}

// ifUsed returns the request if a BGPPeer or BGPAdvertisement exists. Their own events enqueue it otherwise.
func (r *Reconciler) ifUsed(ctx context.Context, o client.Object) []reconcile.Request {
	var peers networkv1alpha1.BGPPeerList
	var advertisements networkv1alpha1.BGPAdvertisementList
	if err := r.list(ctx, &peers, &advertisements); err != nil || len(peers.Items)+len(advertisements.Items) == 0 {
		return nil // the cache returns no errors once it is in sync
	}
	return always(ctx, o)
}

// ofNetwork also returns the request for a node whose routes are left over.
func (r *Reconciler) ofNetwork(ctx context.Context, o client.Object) []reconcile.Request {
	if nn, ok := o.(*networkv1alpha1.NodeNetwork); ok && nn.Spec.BGP != nil {
		return always(ctx, o)
	}
	return r.ifUsed(ctx, o)
}

// ofService returns the request for a Service with addresses of a LoadBalancerPool.
func (r *Reconciler) ofService(ctx context.Context, o client.Object) []reconcile.Request {
	if s, ok := o.(*corev1.Service); ok && lbpool.IsOurs(s) {
		return r.ifUsed(ctx, o)
	}
	return nil
}

// ofSlice returns the request for endpoints of a Service that is announced only where these are.
func (r *Reconciler) ofSlice(ctx context.Context, o client.Object) []reconcile.Request {
	var s corev1.Service
	name := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[discoveryv1.LabelServiceName]}
	if name.Name == "" || r.Client.Get(ctx, name, &s) != nil { // the creation of the Service enqueues the request
		return nil
	}
	if s.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return nil
	}
	return r.ofService(ctx, &s)
}

// networkChanged passes changes of what the routes are computed from, and of the sessions.
func networkChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return kind.NodeSpecChanged(before, after) ||
		!equality.Semantic.DeepEqual(before.Spec.BGP, after.Spec.BGP) ||
		before.Status.Chassis != after.Status.Chassis || !equality.Semantic.DeepEqual(before.Status.BGP, after.Status.BGP) ||
		!equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway)
}

// nodeChanged passes changes of labels and addresses, and of whether the node may announce.
func nodeChanged(before, after *corev1.Node) bool {
	return !maps.Equal(before.Labels, after.Labels) ||
		lbpool.IsReady(before) != lbpool.IsReady(after) || before.Spec.Unschedulable != after.Spec.Unschedulable ||
		lbpool.MayAnnounce(before) != lbpool.MayAnnounce(after) ||
		!slices.Equal(facts.InternalIPs(before), facts.InternalIPs(after))
}

// serviceChanged passes changes of a Service's addresses, and of which nodes announce them.
func serviceChanged(before, after *corev1.Service) bool {
	return lbpool.IsOurs(before) != lbpool.IsOurs(after) ||
		lbpool.Wants(before) != lbpool.Wants(after) || !maps.Equal(before.Labels, after.Labels) ||
		before.Spec.ExternalTrafficPolicy != after.Spec.ExternalTrafficPolicy ||
		!slices.Equal(lbpool.AddressesOf(before), lbpool.AddressesOf(after))
}

// egressIPChanged passes changes of labels, and of which node carries which address.
func egressIPChanged(before, after *networkv1alpha1.EgressIP) bool {
	return !maps.Equal(before.Labels, after.Labels) ||
		!slices.Equal(before.Status.Items, after.Status.Items)
}
