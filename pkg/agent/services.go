package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/names"
)

// CachedServices says what of services and their endpoints an agent's cache holds: addresses and ports, and the
// endpoints on its own node, with the others of their slices.
func CachedServices(node string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Service{}: {Label: without(names.ServiceProxyLabel, corev1.IsHeadlessService), Transform: func(object any) (any, error) {
			if s, ok := object.(*corev1.Service); ok {
				return desired.StripService(s), nil
			}
			return object, nil
		}},
		&discoveryv1.EndpointSlice{}: {Label: without(names.ServiceProxyLabel, corev1.IsHeadlessService), Transform: func(object any) (any, error) {
			if s, ok := object.(*discoveryv1.EndpointSlice); ok {
				return desired.StripSlice(s, node), nil
			}
			return object, nil
		}},
	}
}

// without selects what has none of the labels. The keys are constants, which are labels.
func without(keys ...string) labels.Selector {
	selector := labels.NewSelector()
	for _, key := range keys {
		if r, err := labels.NewRequirement(key, selection.DoesNotExist, nil); err == nil {
			selector = selector.Add(*r)
		}
	}
	return selector
}

// services knows what is reached from outside at this node. It is complete from its first word on: with a part of the services, those that it
// lacks would be cut off for a moment at each start.
type services struct {
	client  client.Reader
	checks  *healthChecks
	changed func()

	mu     sync.Mutex
	byName map[types.NamespacedName][]desired.Frontend // nil: not read yet
	place  desired.Place
}

// ofService is the index of EndpointSlices by their service.
const ofService = "service"

// at tells where the node is, of which some endpoints have an address. It is called when the services are read.
func (s *services) at(ctx context.Context, place desired.Place) error {
	s.mu.Lock()
	same := s.place.Equal(place)
	s.place = place
	s.mu.Unlock()
	if same {
		return nil
	}
	return s.read(ctx)
}

// Reconcile implements reconcile.Reconciler.
func (s *services) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !s.isRead() {
		return ctrl.Result{}, s.begin(ctx)
	}
	service := &corev1.Service{}
	err := s.client.Get(ctx, req.NamespacedName, service)
	if apierrors.IsNotFound(err) {
		service, err = nil, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	frontends, err := s.frontendsOf(ctx, req.NamespacedName, service)
	if err != nil {
		return ctrl.Result{}, err
	}
	s.mu.Lock()
	differs := !reflect.DeepEqual(s.byName[req.NamespacedName], frontends)
	if len(frontends) == 0 {
		delete(s.byName, req.NamespacedName)
	} else {
		s.byName[req.NamespacedName] = frontends
	}
	s.mu.Unlock()
	if differs {
		s.changed()
	}
	return ctrl.Result{}, nil
}

// begin reads the services for the first time, for which others wait.
func (s *services) begin(ctx context.Context) error {
	err := s.read(ctx)
	if err == nil {
		s.changed()
	}
	return err
}

// read reads all services; the caches are complete when it is called.
func (s *services) read(ctx context.Context) error {
	var list corev1.ServiceList
	if err := s.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	all := map[types.NamespacedName][]desired.Frontend{}
	for i := range list.Items {
		name := client.ObjectKeyFromObject(&list.Items[i])
		frontends, err := s.frontendsOf(ctx, name, &list.Items[i])
		if err != nil {
			return err
		}
		if len(frontends) > 0 {
			all[name] = frontends
		}
	}
	s.mu.Lock()
	s.byName = all
	s.mu.Unlock()
	return nil
}

// frontendsOf computes a service's, and lets its health check know. service is nil where there is none.
func (s *services) frontendsOf(ctx context.Context, name types.NamespacedName, service *corev1.Service) ([]desired.Frontend, error) {
	if service == nil {
		s.checks.forget(name)
		return nil, nil
	}
	var list discoveryv1.EndpointSliceList
	if err := s.client.List(ctx, &list, client.InNamespace(name.Namespace), client.MatchingFields{ofService: name.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("service %s: list its endpoints: %w", name, err)
	}
	s.mu.Lock()
	place := s.place
	s.mu.Unlock()
	local := desired.FindLocal(list.Items, place)
	s.checks.set(name, desired.HealthCheckPort(service), local.Ready)
	return desired.Frontends(service, local), nil
}

func (s *services) isRead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName != nil
}

// frontends returns all by the services' names; ok is false while they are not read.
func (s *services) frontends() (all []desired.Frontend, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(s.byName), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, name := range names {
		all = append(all, s.byName[name]...)
	}
	return all, s.byName != nil
}

func (s *services) register(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &discoveryv1.EndpointSlice{}, ofService, func(object client.Object) []string {
		return []string{object.GetLabels()[discoveryv1.LabelServiceName]}
	})
	if err != nil {
		return fmt.Errorf("index of endpoints: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).Named("services").
		For(&corev1.Service{}).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(serviceOf), builder.WithPredicates(predicate.Funcs{UpdateFunc: localChanged})).
		Complete(s)
}

// run reads the services once where there is none that would be reconciled.
func (s *services) run(mgr ctrl.Manager) func(context.Context) error {
	return func(ctx context.Context) error {
		if !mgr.GetCache().WaitForCacheSync(ctx) || s.isRead() {
			return nil
		}
		return s.begin(ctx)
	}
}

func serviceOf(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetLabels()[discoveryv1.LabelServiceName]}}}
}

// localChanged leaves aside what happens to the endpoints of services that have none on the node.
func localChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*discoveryv1.EndpointSlice)
	after, ok2 := e.ObjectNew.(*discoveryv1.EndpointSlice)
	return !ok || !ok2 || !reflect.DeepEqual(before.Endpoints, after.Endpoints) ||
		before.Labels[discoveryv1.LabelServiceName] != after.Labels[discoveryv1.LabelServiceName]
}
