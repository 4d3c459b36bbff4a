package service

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/addresses/lookup"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

const (
	// ByNodes indexes, as "true", the Services whose balancers differ between nodes, whatever their endpoints are.
	ByNodes = "balanced.pernode"
	// ByExternalPort indexes the Services with external IPs by facts.ExternalPorts.
	ByExternalPort = "spec.externalIPs.ports"
	// ByHints indexes, as "true", the EndpointSlices with hints for nodes or zones.
	ByHints = "hinted"
	// workers is how many services are reconciled concurrently. Each waits for its transaction, and all that wait
	// share the next one.
	workers = 16
)

// IndexByNodes is the function of the index ByNodes.
func IndexByNodes(o client.Object) []string {
	if service, ok := o.(*corev1.Service); ok && facts.DiffersByNode(service) {
		return []string{"true"}
	}
	return nil
}

// IndexByExternalPort is the function of the index ByExternalPort.
func IndexByExternalPort(o client.Object) []string {
	if service, ok := o.(*corev1.Service); ok {
		return facts.ExternalPorts(service)
	}
	return nil
}

// IndexByHints is the function of the index ByHints.
func IndexByHints(o client.Object) []string {
	if slice, ok := o.(*discoveryv1.EndpointSlice); ok && facts.Hinted(slice) {
		return []string{"true"}
	}
	return nil
}

// Kinds returns the kind of services' units. The controller starts when services and slices are both in sync, so that
// no balancer is created, or cut down, from a part of its endpoints.
func Kinds(env *kind.Env) []*kind.Kind {
	r := (&Reconciler{Client: env.Client, Database: env.Database, Reserved: env.Reserved,
		Events: env.Events, Zone: env.Zone}).Measure(env.Settings.Programmed)
	return []*kind.Kind{{
		Name: topology.KindService, Workers: workers, Reconciler: r,
		Owner: func() client.Object { return &corev1.Service{} },
		First: func() client.ObjectList { return &corev1.ServiceList{} },
		Indexes: []kind.Index{
			{Object: &discoveryv1.EndpointSlice{}, Field: balance.ByService, Values: balance.IndexByService},
			{Object: &discoveryv1.EndpointSlice{}, Field: ByHints, Values: IndexByHints},
			{Object: &corev1.Service{}, Field: balance.ByAddress, Values: balance.IndexByAddress},
			{Object: &corev1.Service{}, Field: ByExternalPort, Values: IndexByExternalPort},
			{Object: &corev1.Service{}, Field: ByNodes, Values: IndexByNodes},
			{Object: &corev1.Service{}, Field: balance.ByExposed, Values: balance.IndexByExposed},
			{Object: &networkv1alpha1.EgressIP{}, Field: balance.ByGranted, Values: balance.IndexByGranted},
		},
		Watches: r.watches(),
	}}
}

func (r *Reconciler) watches() []kind.Watch {
	changed := trigger.Changed(serviceChanged)
	return []kind.Watch{
		kind.Of(&corev1.Service{}, changed),
		kind.Map(&corev1.Service{}, r.reader().RequestSharing, changed),
		kind.Map(&discoveryv1.EndpointSlice{}, r.reader().RequestExposed, predicate.NewPredicateFuncs(lookup.OfAPIServer)),
		kind.On(&corev1.Service{}, r.holders(nodePorts)),
		kind.On(&corev1.Pod{}, r.holders(hostPorts)),
		kind.On(&corev1.Node{}, r.owners(facts.NodeAddresses)),
		kind.On(&networkv1alpha1.NodeNetwork{}, r.owners(facts.NodeAddresses)),
		kind.On(&networkv1alpha1.EgressIP{}, r.owners(grantedAddresses)),
		kind.Map(&networkv1alpha1.ClusterNetwork{}, r.reader().RequestExposed, trigger.Changed(reservedChanged)),
		kind.Map(&networkv1alpha1.IPPool{}, r.reader().RequestExposed, balance.InForceChanged()),
		kind.Map(&networkv1alpha1.BGPPeer{}, r.reader().RequestExposed, predicate.GenerationChangedPredicate{}),
		kind.Map(&networkv1alpha1.ExternalRoute{}, r.reader().RequestExposed, trigger.Changed(hopsChanged)),
		// A slice that moves to another service concerns both services.
		kind.Map(&discoveryv1.EndpointSlice{}, serviceOf),
		kind.Map(&corev1.Node{}, r.PerNode, trigger.Changed(nodeChanged)),
		kind.Map(&networkv1alpha1.NodeNetwork{}, r.PerNode, trigger.Changed(networkChanged)),
	}
}

// serviceOf returns a request for the service of an EndpointSlice.
func serviceOf(_ context.Context, slice client.Object) (requests []reconcile.Request) {
	for _, service := range balance.IndexByService(slice) {
		requests = append(requests,
			reconcile.Request{NamespacedName: types.NamespacedName{Namespace: slice.GetNamespace(), Name: service}})
	}
	return requests
}

// PerNode returns a request for each service whose balancers differ between nodes.
func (r *Reconciler) PerNode(ctx context.Context, _ client.Object) []reconcile.Request {
	requests := r.reader().Request(ctx, client.MatchingFields{ByNodes: "true"})
	var hinted discoveryv1.EndpointSliceList
	if err := r.Client.List(ctx, &hinted, client.MatchingFields{ByHints: "true"}); err != nil {
		return requests // the cache returns no errors once it is in sync
	}
	for i := range hinted.Items {
		requests = append(requests, serviceOf(ctx, &hinted.Items[i])...)
	}
	return requests
}

// nodeChanged passes updates of a node that change its zone or addresses.
func nodeChanged(before, after *corev1.Node) bool {
	return before.Labels[corev1.LabelTopologyZone] != after.Labels[corev1.LabelTopologyZone] ||
		!equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}

// networkChanged passes updates of a NodeNetwork that change its chassis or the addresses of its gateway.
func networkChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return before.Status.Chassis != after.Status.Chassis || before.Spec.Zone != after.Spec.Zone ||
		!equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway)
}

// serviceChanged passes updates that change addresses or how they are balanced.
func serviceChanged(before, after *corev1.Service) bool {
	return facts.Balanced(before) != facts.Balanced(after) ||
		!maps.Equal(before.Annotations, after.Annotations) || !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
		!equality.Semantic.DeepEqual(before.Status.LoadBalancer, after.Status.LoadBalancer) ||
		reported(before) != reported(after) // a cache that was behind may have hidden it
}

// reported returns what the condition ServiceAddressesReady says.
func reported(s *corev1.Service) (says [3]string) {
	if c := meta.FindStatusCondition(s.Status.Conditions, networkv1alpha1.ServiceAddressesReady); c != nil {
		says = [3]string{string(c.Status), c.Reason, c.Message}
	}
	return says
}
