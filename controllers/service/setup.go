package service

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/reserved/lookup"
	"github.com/weft-network/weft/pkg/topology"
)

const (
	// ByService indexes EndpointSlices by the name of their service.
	ByService = "metadata.labels." + discoveryv1.LabelServiceName
	// ByAddress indexes Services by the addresses that they are balanced on.
	ByAddress = kind.ServicesByAddress
	// ByNodes indexes, as "true", the Services whose balancers differ between nodes.
	ByNodes = "balanced.pernode"
	// ByExposed indexes, as "true", the Services that have an address or port outside the cluster's own networks.
	ByExposed = kind.ServicesExposed
	// workers is how many services are reconciled concurrently. Each waits for its transaction, and all that wait
	// share the next one.
	workers = 16
)

// IndexByService is the function of the index ByService.
func IndexByService(o client.Object) []string {
	if name := o.GetLabels()[discoveryv1.LabelServiceName]; name != "" {
		return []string{name}
	}
	return nil
}

// IndexByAddress is the function of the index ByAddress.
func IndexByAddress(o client.Object) []string {
	service, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	var texts []string
	for _, address := range facts.ServiceAddresses(service) {
		texts = append(texts, address.String())
	}
	return texts
}

// IndexByNodes is the function of the index ByNodes.
func IndexByNodes(o client.Object) []string {
	if service, ok := o.(*corev1.Service); ok && facts.PerNode(service) {
		return []string{"true"}
	}
	return nil
}

// IndexByExposed is the function of the index ByExposed.
func IndexByExposed(o client.Object) []string {
	if service, ok := o.(*corev1.Service); ok && facts.Exposed(service) {
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
			{Object: &discoveryv1.EndpointSlice{}, Field: ByService, Values: IndexByService},
			{Object: &corev1.Service{}, Field: ByAddress, Values: IndexByAddress},
			{Object: &corev1.Service{}, Field: ByNodes, Values: IndexByNodes},
			{Object: &corev1.Service{}, Field: ByExposed, Values: IndexByExposed},
		},
		Watches: r.watches(),
	}}
}

func (r *Reconciler) watches() []kind.Watch {
	changed := predicate.Funcs{UpdateFunc: serviceChanged}
	return []kind.Watch{
		kind.Of(&corev1.Service{}, changed),
		// An address that one service releases may belong to another now.
		kind.Map(&corev1.Service{}, r.Sharing, changed),
		kind.Map(&discoveryv1.EndpointSlice{}, r.Exposed, predicate.NewPredicateFuncs(lookup.OfAPIServer)),
		kind.On(&corev1.Node{}, r.owners()),
		kind.On(&networkv1alpha1.NodeNetwork{}, r.owners()),
		kind.Map(&networkv1alpha1.ClusterNetwork{}, r.Exposed, predicate.Funcs{UpdateFunc: reservedChanged}),
		kind.Map(&networkv1alpha1.IPPool{}, r.Exposed, kind.RangesChanged()),
		// A slice that moves to another service concerns both services.
		kind.Map(&discoveryv1.EndpointSlice{}, serviceOf),
		kind.Map(&corev1.Node{}, r.PerNode, predicate.Funcs{UpdateFunc: nodeChanged}),
		kind.Map(&networkv1alpha1.NodeNetwork{}, r.PerNode, predicate.Funcs{UpdateFunc: networkChanged}),
	}
}

// serviceOf returns a request for the service of an EndpointSlice.
func serviceOf(_ context.Context, slice client.Object) (requests []reconcile.Request) {
	for _, service := range IndexByService(slice) {
		requests = append(requests,
			reconcile.Request{NamespacedName: types.NamespacedName{Namespace: slice.GetNamespace(), Name: service}})
	}
	return requests
}

// PerNode returns a request for each service whose balancers differ between nodes.
func (r *Reconciler) PerNode(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	var list corev1.ServiceList
	if err := r.Client.List(ctx, &list, client.MatchingFields{ByNodes: "true"}); err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// nodeChanged passes updates of a node that change its zone or addresses.
func nodeChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	return !ok || !ok2 || before.Labels[corev1.LabelTopologyZone] != after.Labels[corev1.LabelTopologyZone] ||
		!equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}

// networkChanged passes updates of a NodeNetwork that change its chassis or the addresses of its gateway.
func networkChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*networkv1alpha1.NodeNetwork)
	after, ok2 := e.ObjectNew.(*networkv1alpha1.NodeNetwork)
	return !ok || !ok2 || before.Status.Chassis != after.Status.Chassis || before.Spec.Zone != after.Spec.Zone ||
		!equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway)
}

// Sharing returns a request for each other service that has an address of this service.
func (r *Reconciler) Sharing(ctx context.Context, o client.Object) (requests []reconcile.Request) {
	service, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	others, err := r.sharing(ctx, service)
	if err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	for i := range others {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&others[i])})
	}
	return requests
}

// serviceChanged passes updates that change addresses or how they are balanced.
func serviceChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Service)
	after, ok2 := e.ObjectNew.(*corev1.Service)
	return !ok || !ok2 || facts.Balanced(before) != facts.Balanced(after) ||
		!maps.Equal(before.Annotations, after.Annotations) || !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
		!equality.Semantic.DeepEqual(before.Status.LoadBalancer, after.Status.LoadBalancer)
}
