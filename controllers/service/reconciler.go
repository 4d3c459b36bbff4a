// Package service reconciles Services: each that has addresses gets its load balancers, whose backends are the endpoints of its
// EndpointSlices.
package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is what the reconciler needs of the engine.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
}

// Reconciler reconciles Services. A service's load balancers follow from its objects; what is remembered is only measured.
type Reconciler struct {
	Client   client.Client
	Database Database
	Events   events.EventRecorder
	Trigger  *trigger.Trigger
	// Looked is called with each service that was reconciled, whatever came of it; it may be nil.
	Looked func(types.NamespacedName)

	latency latency
}

// Measure has each change of endpoints measured: how long it took from its cause until the database had it.
// changed is told of each too; it must not wait.
func (r *Reconciler) Measure(observe func(time.Duration), changed func()) *Reconciler {
	r.latency.observe, r.latency.now, r.latency.changed = observe, time.Now, changed
	return r
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var service corev1.Service
	if err := r.Client.Get(ctx, req.NamespacedName, &service); apierrors.IsNotFound(err) {
		r.latency.forget(req.NamespacedName)
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: topology.ServiceKey(req.Namespace, req.Name)}))
	} else if err != nil {
		return ctrl.Result{}, err
	}
	endpoints, err := r.endpoints(ctx, &service)
	if err != nil {
		return ctrl.Result{}, err
	}
	others, err := r.sharing(ctx, &service)
	if err != nil {
		return ctrl.Result{}, err
	}
	nodes, err := r.nodes(ctx, &service)
	if err != nil {
		return ctrl.Result{}, err
	}
	parsed, problems := topology.ParseService(&service, endpoints, nodes)
	conflicts := parsed.Yield(&service, others)
	applied := r.Database.Apply(ctx, topology.ServiceUnit(parsed))
	if applied == nil {
		r.latency.applied(req.NamespacedName, endpoints)
	}
	r.tell(&service, problems, conflicts, applied)
	return ctrl.Result{}, ovndb.IgnorePending(applied)
}

// endpoints lists the service's slices, those that mirror an old Endpoints object included, in the order of their names.
func (r *Reconciler) endpoints(ctx context.Context, service *corev1.Service) ([]discoveryv1.EndpointSlice, error) {
	if !topology.Balanced(service) {
		return nil, nil
	}
	var list discoveryv1.EndpointSliceList
	err := r.Client.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingFields{ByService: service.Name})
	slices.SortFunc(list.Items, func(a, b discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, err
}

// nodes lists the nodes that a service may have other backends on than elsewhere, in the order of their names.
func (r *Reconciler) nodes(ctx context.Context, service *corev1.Service) ([]topology.ServiceNode, error) {
	if !topology.PerNode(service) {
		return nil, nil
	}
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	if err := errors.Join(r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy), r.Client.List(ctx, &networks, client.UnsafeDisableDeepCopy)); err != nil {
		return nil, err
	}
	return topology.ServiceNodes(nodes.Items, networks.Items), nil
}

// sharing lists the services that have an address of this one, each once.
func (r *Reconciler) sharing(ctx context.Context, service *corev1.Service) ([]corev1.Service, error) {
	var found []corev1.Service
	for _, address := range topology.ServiceAddresses(service) {
		var list corev1.ServiceList
		if err := r.Client.List(ctx, &list, client.MatchingFields{ByAddress: address.String()}); err != nil {
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

// tell says in events what of the service cannot be had.
func (r *Reconciler) tell(service *corev1.Service, problems, conflicts []string, applied error) {
	if len(problems) > 0 {
		r.Events.Eventf(service, nil, corev1.EventTypeWarning, "InvalidService", "Balance", "%s", strings.Join(problems, "; "))
	}
	if len(conflicts) > 0 {
		r.Events.Eventf(service, nil, corev1.EventTypeWarning, "AddressConflict", "Balance", "%s", strings.Join(conflicts, "; "))
	}
	var refused *ovndb.RejectedError
	if errors.As(applied, &refused) {
		r.Events.Eventf(service, nil, corev1.EventTypeWarning, "FailedLoadBalancer", "Balance", "%v", applied)
	}
}
