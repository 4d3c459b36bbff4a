package gateway

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
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
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/reserved"
)

// CachedServices configures what an agent's cache holds of services and their endpoints: addresses and ports, and the
// endpoints on its own node together with the others of their slices.
func CachedServices(node string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Service{}: {
			Label: without(names.ServiceProxyLabel, corev1.IsHeadlessService),
			Transform: func(object any) (any, error) {
				if s, ok := object.(*corev1.Service); ok {
					return desired.StripService(s), nil
				}
				return object, nil
			},
		},
		&discoveryv1.EndpointSlice{}: {
			Label: without(names.ServiceProxyLabel, corev1.IsHeadlessService),
			Transform: func(object any) (any, error) {
				if s, ok := object.(*discoveryv1.EndpointSlice); ok {
					return desired.StripSlice(s, node), nil
				}
				return object, nil
			},
		},
	}
}

// without selects objects with none of the labels. An error is impossible, because the keys are valid constants.
func without(keys ...string) labels.Selector {
	selector := labels.NewSelector()
	for _, key := range keys {
		if r, err := labels.NewRequirement(key, selection.DoesNotExist, nil); err == nil {
			selector = selector.Add(*r)
		}
	}
	return selector
}

// Services holds what clients outside can connect to at this node. It is used only after all services have been read.
// Otherwise each start of the agent would disconnect the services that are still missing.
type Services struct {
	client  client.Reader
	checks  *HealthChecks
	changed func()

	mu     sync.Mutex
	byName map[types.NamespacedName][]desired.Frontend // nil: not read yet
	place  desired.Place
	// servers are the API servers, from the endpoints of their service.
	servers []reserved.Destination
}

// NewServices returns the services of a node. changed is called when the frontends or the API servers change.
func NewServices(c client.Reader, checks *HealthChecks, node string, changed func()) *Services {
	return &Services{client: c, checks: checks, changed: changed, place: desired.Place{Node: node}}
}

// apiServer is the Service whose endpoints are the API servers.
var apiServer = types.NamespacedName{Namespace: corev1.NamespaceDefault, Name: "kubernetes"}

// ofService is the name of the index of EndpointSlices by service.
const ofService = "service"

// at sets the node's addresses and networks, because some endpoints have an address of the node. It must be called after
// the services have been read.
func (s *Services) at(ctx context.Context, place desired.Place) error {
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
func (s *Services) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
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
	servers, err := s.listServers(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	s.mu.Lock()
	differs := !reflect.DeepEqual(s.byName[req.NamespacedName], frontends) || !slices.Equal(s.servers, servers)
	s.servers = servers
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

// begin reads the services for the first time and calls changed, because the reconciler waits for that.
func (s *Services) begin(ctx context.Context) error {
	err := s.read(ctx)
	if err == nil {
		s.changed()
	}
	return err
}

// read reads all services. The caches must be synced.
func (s *Services) read(ctx context.Context) error {
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
	servers, err := s.listServers(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.byName, s.servers = all, servers
	s.mu.Unlock()
	return nil
}

// endpointsOf lists the EndpointSlices of a service.
func (s *Services) endpointsOf(ctx context.Context, name types.NamespacedName) (list discoveryv1.EndpointSliceList, err error) {
	err = s.client.List(ctx, &list, client.InNamespace(name.Namespace), client.MatchingFields{ofService: name.Name},
		client.UnsafeDisableDeepCopy)
	return list, err
}

// listServers reads the addresses of the API servers.
func (s *Services) listServers(ctx context.Context) (found []reserved.Destination, err error) {
	list, err := s.endpointsOf(ctx, apiServer)
	if err != nil {
		return nil, fmt.Errorf("list the API server's endpoints: %w", err)
	}
	for i := range list.Items {
		found = append(found, desired.Servers(&list.Items[i])...)
	}
	return found, nil
}

// apiServers returns the addresses of the API servers.
func (s *Services) apiServers() []reserved.Destination {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers
}

// frontendsOf computes the frontends of a service and updates its health check. service is nil if it does not exist.
func (s *Services) frontendsOf(ctx context.Context, name types.NamespacedName, service *corev1.Service) ([]desired.Frontend, error) {
	if service == nil {
		s.checks.forget(name)
		return nil, nil
	}
	list, err := s.endpointsOf(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("service %s: list its endpoints: %w", name, err)
	}
	s.mu.Lock()
	place := s.place
	s.mu.Unlock()
	local := desired.FindLocal(list.Items, place)
	s.checks.set(name, desired.HealthCheckPort(service), local.Ready)
	return desired.Frontends(service, local), nil
}

func (s *Services) isRead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName != nil
}

// frontends returns all frontends, sorted by service. ok is false until the services have been read.
func (s *Services) frontends() (all []desired.Frontend, ok bool) {
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

// ownerOf returns the service whose node port a port is.
func (s *Services) ownerOf(protocol string, port uint16) (owner string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, frontends := range s.byName {
		for i := range frontends {
			if f := &frontends[i]; f.NodePort == port && strings.EqualFold(string(f.Protocol), protocol) {
				return "the node port of service " + name.String(), true
			}
		}
	}
	return "", false
}

// Register adds the services' controller to a manager.
func (s *Services) Register(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &discoveryv1.EndpointSlice{}, ofService, func(object client.Object) []string {
		return []string{object.GetLabels()[discoveryv1.LabelServiceName]}
	})
	if err != nil {
		return fmt.Errorf("index of endpoints: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).Named("services").
		For(&corev1.Service{}).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(serviceOf),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: localChanged})).
		Complete(s)
}

// Run reads the services once, because a cluster without services causes no reconciliation.
func (s *Services) Run(mgr ctrl.Manager) func(context.Context) error {
	return func(ctx context.Context) error {
		if !mgr.GetCache().WaitForCacheSync(ctx) || s.isRead() {
			return nil
		}
		return s.begin(ctx)
	}
}

func serviceOf(_ context.Context, object client.Object) []reconcile.Request {
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetLabels()[discoveryv1.LabelServiceName]}
	return []reconcile.Request{{NamespacedName: name}}
}

// localChanged reports whether an update changes what the agent keeps of a slice. It filters out changes of services
// without endpoints on the node.
func localChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*discoveryv1.EndpointSlice)
	after, ok2 := e.ObjectNew.(*discoveryv1.EndpointSlice)
	return !ok || !ok2 || !reflect.DeepEqual(before.Endpoints, after.Endpoints) ||
		before.Labels[discoveryv1.LabelServiceName] != after.Labels[discoveryv1.LabelServiceName]
}
