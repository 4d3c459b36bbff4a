// Package balance reads a Service with all that decides how it is balanced: its EndpointSlices, the Services that have one
// of its addresses, and the IPPools. The operator and the agents read it alike, so that a Service is the same for pods, for
// hosts and for clients outside.
package balance

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// The indexes that a Reader's cache must have.
const (
	// ByService indexes EndpointSlices by the name of their service.
	ByService = "metadata.labels." + discoveryv1.LabelServiceName
	// ByAddress indexes Services by the addresses that they are balanced on.
	ByAddress = "balanced.addresses"
	// ByGranted indexes EgressIPs by the addresses that they were granted.
	ByGranted = "granted.addresses"
	// ByExposed indexes, as "true", the Services that have an address or port outside the cluster's own networks.
	ByExposed = "balanced.exposed"
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

// IndexByExposed is the function of the index ByExposed.
func IndexByExposed(o client.Object) []string {
	if service, ok := o.(*corev1.Service); ok && facts.Exposed(service) {
		return []string{"true"}
	}
	return nil
}

// IndexByGranted is the function of the index ByGranted.
func IndexByGranted(o client.Object) (texts []string) {
	if e, ok := o.(*networkv1alpha1.EgressIP); ok {
		for _, a := range facts.GrantedEgressAddresses(e) {
			texts = append(texts, a.String())
		}
	}
	return texts
}

// Reader reads Services from a cache with the indexes of this package.
type Reader struct {
	client.Reader
	// EgressIPs means that the cache has EgressIPs, with the index ByGranted. Agents' caches have none.
	EgressIPs bool
}

// Endpoints lists the slices of a service, sorted by name, including mirrors of an old Endpoints object. They must not be changed.
func (r Reader) Endpoints(ctx context.Context, service *corev1.Service) ([]discoveryv1.EndpointSlice, error) {
	if !facts.Balanced(service) {
		return nil, nil
	}
	var list discoveryv1.EndpointSliceList
	err := r.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingFields{ByService: service.Name})
	slices.SortFunc(list.Items, func(a, b discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, err
}

// Yield removes from a service, as facts.ParseService has read it, the addresses that belong to an IPPool, an EgressIP or another
// service. refused and conflicts have a sentence for each, which names the owner.
func (r Reader) Yield(ctx context.Context, service *corev1.Service, parsed *facts.Service) (refused, conflicts []string, err error) {
	claims, err := r.claims(ctx, service)
	if err != nil {
		return nil, nil, err
	}
	others, err := r.Sharing(ctx, service)
	if err != nil {
		return nil, nil, err
	}
	yields := parsed.YieldTo(service, func(a netip.Addr) string { return claims.Owner(service, a) })
	return yields, parsed.Yield(service, others), nil
}

// claims reads the claims on the addresses of a service. A service without external addresses costs no read.
func (r Reader) claims(ctx context.Context, service *corev1.Service) (c Claims, err error) {
	if len(facts.ExternalAddresses(service)) == 0 {
		return Claims{}, nil
	}
	var pools networkv1alpha1.IPPoolList
	if err := r.List(ctx, &pools); err != nil {
		return Claims{}, err
	}
	var granted []networkv1alpha1.EgressIP
	for _, a := range facts.ExternalAddresses(service) {
		if !r.EgressIPs {
			break
		}
		var list networkv1alpha1.EgressIPList
		if err := r.List(ctx, &list, client.MatchingFields{ByGranted: a.String()}); err != nil {
			return Claims{}, err
		}
		granted = append(granted, list.Items...)
	}
	return NewClaims(pools.Items, granted), nil
}

// Sharing lists the other services that have an address of a service, without duplicates. They must not be changed.
func (r Reader) Sharing(ctx context.Context, service *corev1.Service) ([]corev1.Service, error) {
	var found []corev1.Service
	for _, address := range facts.ServiceAddresses(service) {
		var list corev1.ServiceList
		if err := r.List(ctx, &list, client.MatchingFields{ByAddress: address.String()}); err != nil {
			return nil, err
		}
		for _, other := range list.Items {
			name := client.ObjectKeyFromObject(&other)
			known := slices.ContainsFunc(found, func(s corev1.Service) bool { return client.ObjectKeyFromObject(&s) == name })
			if !known && name != client.ObjectKeyFromObject(service) {
				found = append(found, other)
			}
		}
	}
	return found, nil
}

// RequestSharing returns a request for each other service that has an address of a service: an address that one releases may
// belong to another now.
func (r Reader) RequestSharing(ctx context.Context, o client.Object) (requests []reconcile.Request) {
	service, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	others, err := r.Sharing(ctx, service)
	if err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	for i := range others {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&others[i])})
	}
	return requests
}

// RequestExposed returns a request for each service that is reachable from outside.
func (r Reader) RequestExposed(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.Request(ctx, client.MatchingFields{ByExposed: "true"})
}

// InForceChanged passes the events of NAT pools that change their ranges in force, to which Services yield.
func InForceChanged() predicate.Predicate {
	inForce := func(o client.Object) floating.InForce {
		if pool, ok := o.(*networkv1alpha1.IPPool); ok {
			return floating.NewInForce([]networkv1alpha1.IPPool{*pool})
		}
		return nil
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return len(inForce(e.Object)) > 0 },
		DeleteFunc: func(e event.DeleteEvent) bool { return len(inForce(e.Object)) > 0 },
		UpdateFunc: func(e event.UpdateEvent) bool { return !slices.Equal(inForce(e.ObjectOld), inForce(e.ObjectNew)) },
	}
}

// RangesChanged passes the events of IPPools that change the ranges that they keep from objects other than Services.
func RangesChanged() predicate.Predicate {
	return trigger.Changed(func(before, after *networkv1alpha1.IPPool) bool {
		return before.Generation != after.Generation || floating.Keeps(before) != floating.Keeps(after)
	})
}

// Request returns a request for each service that an option selects.
func (r Reader) Request(ctx context.Context, option client.ListOption) (requests []reconcile.Request) {
	var list corev1.ServiceList
	if err := r.List(ctx, &list, option); err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// NewestCause returns when the newest change of the slices' endpoints happened in the cluster, such as a pod that became ready, as the
// controller that writes the slices reports it. It is zero if unknown.
func NewestCause(endpoints []discoveryv1.EndpointSlice) (newest time.Time) {
	for i := range endpoints {
		at, err := time.Parse(time.RFC3339Nano, endpoints[i].Annotations[corev1.EndpointsLastChangeTriggerTime])
		if err == nil && at.After(newest) {
			newest = at
		}
	}
	return newest
}
